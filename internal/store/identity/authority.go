package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"slices"
	"time"
)

const (
	// skew is how far behind ours another host's clock may be.
	skew = 24 * time.Hour
	// validity is how long certificates last. A job must not end because of its age, and
	// certificates are of no use but for their own job, so this is longer than any job runs.
	validity = 366 * 24 * time.Hour
)

// roles are those that may be in a certificate.
var roles = []string{Scheduler, Server, Worker, Launcher, Agent}

// domain is what stands behind the role in the certificate's one DNS name, worker.paragon say.
const domain = ".paragon"

// An Authority issues the identities of one job. Its methods may be called from several goroutines.
type Authority struct {
	job  string
	key  ed25519.PrivateKey
	cert *x509.Certificate
}

// NewAuthority makes the authority of a job. Its key stays in memory.
func NewAuthority(job string) (*Authority, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("identity: make the key of job %s: %w", job, err)
	}
	template := template(job, "authority")
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign
	cert, err := sign(template, template, public, key)
	if err != nil {
		return nil, fmt.Errorf("identity: make the authority of job %s: %w", job, err)
	}
	return &Authority{job: job, key: key, cert: cert}, nil
}

// Issue makes the identity of one process.
func (a *Authority) Issue(role, name string) (*Identity, error) {
	if !slices.Contains(roles, role) {
		return nil, fmt.Errorf("identity: issue for %q: role %q: want one of %q", name, role, roles)
	}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("identity: make the key of %s: %w", name, err)
	}
	template := template(a.job, name)
	template.DNSNames = []string{role + domain}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	leaf, err := sign(template, a.cert, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("identity: make the certificate of %s: %w", name, err)
	}
	return newIdentity(a.cert, leaf, key)
}

func template(job, name string) *x509.Certificate {
	var serial [16]byte
	// It never fails.
	rand.Read(serial[:])
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial[:]),
		Subject:      pkix.Name{CommonName: name, Organization: []string{job}},
		NotBefore:    now.Add(-skew),
		NotAfter:     now.Add(validity),
	}
}

func sign(template, parent *x509.Certificate, public ed25519.PublicKey, key ed25519.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
