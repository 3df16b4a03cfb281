package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// The encoding is, in base64 with the letters for URLs and without padding:
//
//	offset  size  field
//	     0     1  1, the version
//	     1     2  a, big-endian
//	     3     a  certificate of the authority, DER
//	   3+a     2  b
//	   5+a     b  certificate of the process, DER
//	 5+a+b    32  seed of the process's Ed25519 key
const (
	encoding = 1
	// maxText is longer than every identity.
	maxText = 16 << 10
)

// Encode returns the identity as text of about 1,500 letters, for the environment of the process it
// belongs to. It holds the key.
func (id *Identity) Encode() string {
	b := []byte{encoding}
	for _, c := range []*x509.Certificate{id.issuer, id.leaf} {
		b = binary.BigEndian.AppendUint16(b, uint16(len(c.Raw)))
		b = append(b, c.Raw...)
	}
	return base64.RawURLEncoding.EncodeToString(append(b, id.key.Seed()...))
}

// Decode reads what Encode wrote. No error holds any of the text: it may end up in a log.
func Decode(text string) (*Identity, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("identity: decode: got %d letters, want at most %d", len(text), maxText)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("identity: decode: it is not base64 without padding")
	}
	if len(b) == 0 || b[0] != encoding {
		return nil, fmt.Errorf("identity: decode: want version %d", encoding)
	}
	b = b[1:]
	var certs [2]*x509.Certificate
	for i, whose := range []string{"authority", "process"} {
		if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
			return nil, fmt.Errorf("identity: decode: it ends before the certificate of the %s does", whose)
		}
		n := int(binary.BigEndian.Uint16(b))
		if certs[i], err = x509.ParseCertificate(b[2 : 2+n]); err != nil {
			return nil, fmt.Errorf("identity: decode: certificate of the %s: %w", whose, err)
		}
		b = b[2+n:]
	}
	if len(b) != ed25519.SeedSize {
		return nil, fmt.Errorf("identity: decode: got a key of %d bytes, want %d", len(b), ed25519.SeedSize)
	}
	return newIdentity(certs[0], certs[1], ed25519.NewKeyFromSeed(b))
}

// newIdentity puts an identity together; it checks that the parts belong to each other.
func newIdentity(issuer, leaf *x509.Certificate, key ed25519.PrivateKey) (*Identity, error) {
	role, err := roleOf(leaf)
	if err != nil {
		return nil, err
	}
	if public, ok := leaf.PublicKey.(ed25519.PublicKey); !ok || !bytes.Equal(public, key.Public().(ed25519.PublicKey)) {
		return nil, fmt.Errorf("identity: the key is not that of the certificate of %q", leaf.Subject.CommonName)
	}
	if err := leaf.CheckSignatureFrom(issuer); err != nil {
		return nil, fmt.Errorf("identity: the certificate of %q is not of the authority beside it: %w", leaf.Subject.CommonName, err)
	}
	id := &Identity{role: role, name: leaf.Subject.CommonName, leaf: leaf, issuer: issuer, key: key, roots: x509.NewCertPool()}
	if o := leaf.Subject.Organization; len(o) == 1 {
		id.job = o[0]
	}
	id.roots.AddCert(issuer)
	return id, nil
}
