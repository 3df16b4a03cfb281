package dialin

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

// SecretVariable is the environment variable that may hold an encoded Secret in place of a file.
const SecretVariable = "PARAGON_JOIN_SECRET"

const (
	secretSize   = 32
	secretPrefix = "paragon-secret-1 "
	maxSecret    = 1 << 10 // bytes of a secret's file
)

// A Secret is what launcher and agents of one job share: 32 random bytes. Printed, it shows
// nothing.
type Secret struct {
	// key is a pointer, because package fmt prints the fields of a struct that it finds inside
	// another.
	key *[secretSize]byte
}

// NewSecret makes a Secret.
func NewSecret() Secret {
	s := Secret{new([secretSize]byte)}

	// Read never fails (crypto/rand).
	rand.Read(s.key[:])
	return s
}

// IsZero reports whether s is no secret.
func (s Secret) IsZero() bool { return s.key == nil }

// Format implements fmt.Formatter: a secret must not get into a log.
func (s Secret) Format(w fmt.State, _ rune) { io.WriteString(w, s.hidden()) }

// MarshalText does not show the secret either. Encode does.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.hidden()), nil }

func (s Secret) hidden() string {
	if s.IsZero() {
		return "no secret"
	}
	return "a secret"
}

// Encode is the secret as one line of text without its end.
func (s Secret) Encode() string {
	if s.IsZero() {
		return ""
	}
	return secretPrefix + base64.RawURLEncoding.EncodeToString(s.key[:])
}

// ParseSecret reads what Encode wrote; white space around it does not matter. No error holds any of
// the text: it may end up in a log.
func ParseSecret(text string) (Secret, error) {
	want := fmt.Errorf("want one line: %sand %d letters", secretPrefix, base64.RawURLEncoding.EncodedLen(secretSize))
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), secretPrefix)
	switch {
	case strings.TrimSpace(text) == "":
		return Secret{}, fmt.Errorf("the secret is empty, %w", want)
	case !ok:
		return Secret{}, fmt.Errorf("the secret does not begin with %q, %w", strings.TrimSpace(secretPrefix), want)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if err != nil || len(b) != secretSize || strings.ContainsAny(rest, "\r\n") {
		return Secret{}, fmt.Errorf("the secret has %d letters after %q, %w", len(rest), strings.TrimSpace(secretPrefix), want)
	}
	return Secret{(*[secretSize]byte)(b)}, nil
}

// secretTime is how long the writer of a pipe may take.
const secretTime = 5 * time.Second

// ReadSecret reads the secret in a file that no other user may read. The permissions do not matter
// on a file system that is mounted read-only, as the volumes of Kubernetes' Secrets are: who could
// read it there is whoever may enter the container.
func ReadSecret(path string) (Secret, error) {
	// A named pipe that nobody writes to must not hold launch up.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return Secret{}, fmt.Errorf("launch: read the secret: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Secret{}, fmt.Errorf("launch: read the secret: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 && info.Mode().IsRegular() && !readOnly(f) {
		return Secret{}, fmt.Errorf("launch: read the secret: other users can read %s (mode %#o): chmod 600 %s, and make a new secret if you do not trust them", path, info.Mode().Perm(), path)
	}

	// A regular file has no deadline, and needs none.
	_ = f.SetReadDeadline(time.Now().Add(secretTime))
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return Secret{}, fmt.Errorf("launch: read the secret: %w", err)
	}
	if len(b) > maxSecret {
		return Secret{}, fmt.Errorf("launch: read the secret: %s has more than %d bytes; is it a secret file?", path, maxSecret)
	}
	s, err := ParseSecret(string(b))
	if err != nil {
		return Secret{}, fmt.Errorf("launch: read the secret in %s: %w", path, err)
	}
	return s, nil
}

// ReadOrMakeSecret is ReadSecret, or makes a new secret and the file where there is none.
func ReadOrMakeSecret(path string) (s Secret, made bool, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		s, err = ReadSecret(path)
		return s, false, err
	}
	if err != nil {
		return Secret{}, false, fmt.Errorf("launch: make the secret: %w", err)
	}
	s = NewSecret()
	_, err = io.WriteString(f, s.Encode()+"\n")
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		os.Remove(path)
		return Secret{}, false, fmt.Errorf("launch: make the secret: %w", err)
	}
	return s, true, nil
}
