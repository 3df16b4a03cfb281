package resume

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/paragon-train/paragon/internal/store/identity"
)

// tlsPair are the ends of a TLS connection over the loopback interface.
func tlsPair(t testing.TB) (client, server *tls.Conn) {
	t.Helper()
	keys, err := identity.NewShared(make([]byte, 32), "test")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client, server = tls.Client(c, keys.Client()), tls.Server(<-accepted, keys.Server())
	done := make(chan error, 1)
	go func() { done <- server.Handshake() }()
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); server.NetConn().Close() })
	return client, server
}

// Over TLS, as in use: the stream ends on both ends without waiting for a timeout.
func TestFinishOverTLSIsPrompt(t *testing.T) {
	for range 20 {
		a, b := tlsPair(t)
		x, y := New(Config{}), New(Config{Holder: true})
		x.Attach(a)
		y.Attach(b)
		x.Write([]byte("hello"))
		done := make(chan error, 1)
		go func() { done <- y.Finish(t.Context()) }()
		if err := x.Finish(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
