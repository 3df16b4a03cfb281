package transport

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
)

// Before the first frame both ends of a connection prove that they hold the job's secret:
//
//	client  hello: "PRGN", version, flags, 2 zeros, 32 random bytes
//	server  hello: the same with its own random bytes, then HMAC-SHA256(secret, "paragon server" client-hello server-hello)
//	client  HMAC-SHA256(secret, "paragon client" client-hello server-hello)
//	server  one byte: 1, or 0 if the client's proof is wrong
//
// Each end proves itself over random bytes of the other, and the two proofs differ in their first
// words, so neither replay nor reflection works. All lengths are fixed and the handshake must end
// within handshakeTimeout: an unauthenticated peer costs a goroutine and a few hundred bytes for
// some seconds. An empty secret is one that everybody knows.
//
// Then the flags say what follows, within the same time: TLS on a connection that leaves the host
// (secure.go), if both ends have an Identity; the offer of shared memory within a host
// (auto_linux.go). So a peer without the secret never gets its certificate parsed or memory mapped.
// The proofs cover the flags, so an attacker in the middle cannot switch TLS off.
const (
	// Version is that of the handshake, of what follows it, and of all frames. Processes of two
	// versions refuse each other by it. It goes up with wire.Version, and when the bytes around
	// frames change: in version 4 TLS took the place of records of our own.
	Version = 4

	helloSize = 40
	proofSize = sha256.Size

	// helloTLS is the flag that TLS comes next.
	helloTLS = 1
)

// newHello begins a connection: version, flags and a random number, which makes proofs good for
// this connection alone.
func newHello(flags byte) (h [helloSize]byte) {
	copy(h[:], "PRGN")
	h[4], h[5] = Version, flags
	// It never fails.
	rand.Read(h[8:])
	return h
}

// checkHello checks the peer's hello. Of another version only the first five bytes are known.
func checkHello(h []byte) error {
	paragon := string(h[:4]) == "PRGN"
	if paragon && h[4] != Version {
		return versionError(h[4])
	}
	if !paragon || h[5]&^helloTLS|h[6]|h[7] != 0 {
		return fmt.Errorf("%w: not a Paragon peer: its first bytes are %q", ErrAuth, h[:8])
	}
	return nil
}

// A versionError has the peer's version.
type versionError byte

func (e versionError) Error() string {
	return fmt.Sprintf("%v: it speaks version %d of Paragon's protocol and this process version %d: build launch and all programs of the job from the same version of Paragon",
		ErrVersion, byte(e), Version)
}

func (e versionError) Is(target error) bool { return target == ErrVersion || target == ErrAuth }

// checkFlags checks that both ends want TLS, or neither.
func checkFlags(mine, theirs byte) error {
	switch {
	case mine == theirs:
		return nil
	case theirs&helloTLS != 0:
		return fmt.Errorf("%w: it wants TLS, and this process has no certificate; launch gives one to each process, unless with --tls off", ErrAuth)
	}
	return fmt.Errorf("%w: it has no certificate, and this process wants TLS; launch gives one to each process, unless with --tls off", ErrAuth)
}

// proof shows that its sender knows the secret. It covers both sides' numbers, so that it cannot
// be sent again, and who sends it, so that it cannot be sent back.
func proof(secret []byte, who string, client, server []byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("paragon " + who))
	m.Write(client)
	m.Write(server)
	return m.Sum(nil)
}

// proveToServer is the client's half. ErrAuth is in the error's chain if the peer answered and the
// authentication failed.
func proveToServer(nc net.Conn, secret []byte, flags byte) error {
	mine := newHello(flags)
	if _, err := nc.Write(mine[:]); err != nil {
		return err
	}
	var theirs [helloSize + proofSize]byte
	if _, err := io.ReadFull(nc, theirs[:helloSize]); err != nil {
		return err
	}
	if err := checkHello(theirs[:]); err != nil {
		return err
	}
	if _, err := io.ReadFull(nc, theirs[helloSize:]); err != nil {
		return err
	}
	if !hmac.Equal(theirs[helloSize:], proof(secret, "server", mine[:], theirs[:helloSize])) {
		return fmt.Errorf("%w: its secret differs from this process's", ErrAuth)
	}
	if err := checkFlags(flags, theirs[5]); err != nil {
		return err
	}
	if _, err := nc.Write(proof(secret, "client", mine[:], theirs[:helloSize])); err != nil {
		return err
	}
	var ok [1]byte
	if _, err := io.ReadFull(nc, ok[:]); err != nil {
		return err
	}
	if ok[0] != 1 {
		return fmt.Errorf("%w: it did not accept the proof of this process, whose secret differs from its own", ErrAuth)
	}
	return nil
}

// proveToClient is the server's half.
func proveToClient(nc net.Conn, secret []byte, flags byte) error {
	var theirs [helloSize]byte
	if _, err := io.ReadFull(nc, theirs[:]); err != nil {
		return err
	}
	err := checkHello(theirs[:])
	if err != nil && !errors.Is(err, ErrVersion) {
		return err
	}
	// A client of another version learns from it which one this is.
	mine := newHello(flags)
	if _, err := nc.Write(append(mine[:], proof(secret, "server", theirs[:], mine[:])...)); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	// The client sees the same flags and returns an error, too.
	if err := checkFlags(flags, theirs[5]); err != nil {
		return err
	}
	var p [proofSize]byte
	if _, err := io.ReadFull(nc, p[:]); err != nil {
		return err
	}
	if !hmac.Equal(p[:], proof(secret, "client", theirs[:], mine[:])) {
		nc.Write([]byte{0})
		return fmt.Errorf("%w: its secret differs from this process's", ErrAuth)
	}
	_, err = nc.Write([]byte{1})
	return err
}
