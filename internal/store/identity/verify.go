package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// ErrRole: the other end is of this job, but of a role that has no business there.
var ErrRole = errors.New("certificate of another role")

// Client is for the end that dials: the other end must have one of the roles; none: any role of
// this job.
func (id *Identity) Client(roles ...string) *tls.Config {
	cfg := id.config(x509.ExtKeyUsageServerAuth, roles)
	// No name of a host is looked for in the certificate: VerifyConnection, below, checks what
	// counts, and always runs.
	cfg.InsecureSkipVerify = true
	return cfg
}

// Server returns the TLS configuration of the accepting end: the dialling end must have one of the
// roles; without roles, any role of this job.
func (id *Identity) Server(roles ...string) *tls.Config {
	cfg := id.config(x509.ExtKeyUsageClientAuth, roles)
	// What RequireAndVerifyClientCert refuses VerifyConnection would, too, but this tells the
	// other end why.
	cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, id.roots
	return cfg
}

func (id *Identity) config(usage x509.ExtKeyUsage, roles []string) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{id.certificate()},
		// Connections are few and last for the whole job: resuming sessions would save
		// nothing, and each ticket is a secret more.
		SessionTicketsDisabled: true,
		// Full records from the beginning: no browser waits for the first bytes of a page.
		DynamicRecordSizingDisabled: true,
		VerifyConnection:            func(s tls.ConnectionState) error { return id.verify(s, usage, roles) },
	}
}

// verify checks the other end's certificate.
func (id *Identity) verify(s tls.ConnectionState, usage x509.ExtKeyUsage, roles []string) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("identity: the other end has no certificate")
	}
	leaf := s.PeerCertificates[0]
	_, err := leaf.Verify(x509.VerifyOptions{Roots: id.roots, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{usage}})
	if err != nil {
		return fmt.Errorf("identity: certificate of %q, job %q: %w", leaf.Subject.CommonName, leaf.Subject.Organization, err)
	}
	role, err := roleOf(leaf)
	if err != nil {
		return err
	}
	if len(roles) > 0 && !slices.Contains(roles, role) {
		return fmt.Errorf("identity: certificate of %q: %w: got %s, want %s", leaf.Subject.CommonName, ErrRole, role, strings.Join(roles, " or "))
	}
	return nil
}

// RoleOf is the role of the other end of a connection whose handshake is over.
func RoleOf(s tls.ConnectionState) (string, error) {
	if !s.HandshakeComplete || len(s.PeerCertificates) == 0 {
		return "", errors.New("identity: the other end has shown no certificate")
	}
	return roleOf(s.PeerCertificates[0])
}

func roleOf(c *x509.Certificate) (string, error) {
	if len(c.DNSNames) == 1 {
		if role, ok := strings.CutSuffix(c.DNSNames[0], domain); ok && slices.Contains(roles, role) {
			return role, nil
		}
	}
	return "", fmt.Errorf("identity: certificate of %q has names %q, want one of %s with %s behind it", c.Subject.CommonName, c.DNSNames, strings.Join(roles, ", "), domain)
}

// Explain says in words of this package why a TLS handshake ended, as far as either end can know,
// and what to do about it.
func Explain(err error) error {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	hint := ""
	switch {
	case isAlert(err, alertUnknownCA):
		hint = "the other end is of another job: is the address right?"
	case isAlert(err, alertExpired):
		hint = "by the other end's clock our certificate is not valid: compare the clocks of both hosts, or start the job again"
	case isAlert(err, alertRequired):
		hint = "the other end wants a certificate of its job: start every process of the job through launch"
	case isAlert(err, alertBadCertificate):
		hint = "the other end does not take our certificate: our role has no business there"
	case errors.As(err, &unknown):
		hint = "the other end is of another job, or something stands between that reads along"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		hint = "by our clock its certificate is not valid: compare the clocks of both hosts, or start the job again"
	case errors.Is(err, ErrRole):
		hint = "is the address right?"
	case errors.As(err, &record):
		hint = "what came was no TLS: something stands between that changes bytes"
	}
	if hint == "" {
		return fmt.Errorf("TLS: %w", err)
	}
	return fmt.Errorf("TLS: %w; %s", err, hint)
}

// Alerts by which the other end says why, RFC 8446 section 6.2.
const (
	alertBadCertificate tls.AlertError = 42
	alertExpired        tls.AlertError = 45
	alertUnknownCA      tls.AlertError = 48
	alertRequired       tls.AlertError = 116
)

// isAlert reports whether err is an alert of the other end. Its type in package tls has no name;
// its text is that of AlertError.
func isAlert(err error, want tls.AlertError) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" && op.Err.Error() == want.Error()
}
