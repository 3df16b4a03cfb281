package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
)

// ErrSecret: the other end does not have the same secret.
var ErrSecret = errors.New("the other end has another secret")

// A Shared is what two programs that have nothing in common but a secret prove to each other. Both
// derive the same two key pairs from the secret, one for the end that dials and one for the end
// that accepts. TLS proves to each that the other has the key pair of the other end, so an end that
// dials never talks to another one that dials.
type Shared struct {
	dialer, acceptor *Identity
}

// NewShared derives the keys. purpose separates the uses of one secret, which must have at least 32
// random bytes.
func NewShared(secret []byte, purpose string) (*Shared, error) {
	if len(secret) < 32 {
		return nil, fmt.Errorf("identity: a secret of %d bytes, want at least 32", len(secret))
	}
	var s Shared
	for _, end := range []struct {
		name string
		id   **Identity
	}{{"dialing", &s.dialer}, {"accepting", &s.acceptor}} {
		seed, err := hkdf.Key(sha256.New, secret, nil, "paragon 1 "+purpose+" "+end.name+" end Ed25519", ed25519.SeedSize)
		if err != nil {
			return nil, fmt.Errorf("identity: derive keys for %s: %w", purpose, err)
		}
		key := ed25519.NewKeyFromSeed(seed)
		template := template(purpose, end.name)
		leaf, err := sign(template, template, key.Public().(ed25519.PublicKey), key)
		if err != nil {
			return nil, fmt.Errorf("identity: make a certificate for %s: %w", purpose, err)
		}
		*end.id = &Identity{name: end.name, job: purpose, leaf: leaf, key: key}
	}
	return &s, nil
}

// String shows nothing of the keys.
func (s *Shared) String() string { return s.dialer.job }

// GoString is String.
func (s *Shared) GoString() string { return s.String() }

// Client is for the end that dials.
func (s *Shared) Client() *tls.Config {
	cfg := shared(s.dialer, s.acceptor)
	// VerifyConnection checks the key, and always runs.
	cfg.InsecureSkipVerify = true
	return cfg
}

// Server is for the end that accepts.
func (s *Shared) Server() *tls.Config {
	cfg := shared(s.acceptor, s.dialer)
	cfg.ClientAuth = tls.RequireAnyClientCert
	return cfg
}

func shared(own, other *Identity) *tls.Config {
	want := other.key.Public().(ed25519.PublicKey)
	return &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		Certificates:                []tls.Certificate{own.certificate()},
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errors.New("identity: the other end has no certificate")
			}
			// The rest of the certificate is only a wrapping: with the key both ends
			// could make any other.
			if key, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !ok || !bytes.Equal(key, want) {
				return fmt.Errorf("identity: %w", ErrSecret)
			}
			return nil
		},
	}
}

// IsRefused reports whether a handshake ended because one of the ends did not accept the other's
// certificate.
func IsRefused(err error) bool {
	return errors.Is(err, ErrSecret) || isAlert(err, alertBadCertificate) || isAlert(err, alertUnknownCA)
}
