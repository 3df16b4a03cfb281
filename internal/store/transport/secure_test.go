package transport_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/store/identity"
	. "github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
)

// a log that can be looked at.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

// Who is turned away, what he is told, and what the server's log says.
func TestPeersWithoutTheRightCertificateAreTurnedAway(t *testing.T) {
	secret := []byte("right")
	for _, tc := range []struct {
		name string
		// edit changes what is right: a worker that dials a server, of one job.
		edit             func(t *testing.T, server, client *Config)
		atClient, logged string
	}{
		{"all is right", func(*testing.T, *Config, *Config) {}, "", ""},
		{"another job's certificate", func(t *testing.T, server, client *Config) {
			_, *client = secured(t, Config{}, *client)
		}, "the other end is of another job, or something stands between", "bad certificate"},
		{"another job's server", func(t *testing.T, server, client *Config) {
			*server, _ = secured(t, *server, Config{})
		}, "the other end is of another job", "bad certificate"},
		{"a role that the server does not serve", func(t *testing.T, server, client *Config) {
			server.Peers = []string{identity.Launcher}
		}, "our role has no business there", "certificate of another role: got worker, want launcher"},
		{"a server of another role", func(t *testing.T, server, client *Config) {
			client.Peers = []string{identity.Scheduler}
		}, "certificate of another role: got server, want scheduler; is the address right?", "bad certificate"},
		{"a certificate of the past", func(t *testing.T, server, client *Config) {
			time.Sleep(2 * 366 * 24 * time.Hour)
		}, "by our clock its certificate is not valid: compare the clocks of both hosts, or start the job again", "bad certificate"},
		{"no certificate", func(t *testing.T, server, client *Config) {
			client.Identity = nil
		}, "it wants TLS, and this process has no certificate; launch gives one to each process", "it has no certificate, and this process wants TLS"},
		{"a server without one", func(t *testing.T, server, client *Config) {
			server.Identity = nil
		}, "it has no certificate, and this process wants TLS", "it wants TLS, and this process has no certificate"},
		{"another secret", func(t *testing.T, server, client *Config) {
			client.Secret = []byte("wrong")
		}, "its secret differs from this process's", ""},
		{"another secret and no certificate", func(t *testing.T, server, client *Config) {
			client.Secret, client.Identity = []byte("wrong"), nil
		}, "its secret differs from this process's", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log journal
				n := faultnet.New(1)
				server, client := secured(t, Config{Secret: secret}, Config{Secret: secret})
				server.Logger = slog.New(slog.NewTextHandler(&log, nil))
				tc.edit(t, &server, &client)
				ln, err := n.Host("s").Listen("s:7000")
				if err != nil {
					t.Fatal(err)
				}
				called, peer := 0, ""
				serve(t, ln, &handler{serve: func(_ context.Context, r *Request) (Response, error) {
					called++
					peer = r.Peer
					return Response{Message: &wire.Ack{}}, nil
				}}, server)
				_, err = dialer(t, n, client).Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil)
				synctest.Wait()
				if tc.atClient == "" {
					if err != nil || called != 1 || peer != identity.Worker {
						t.Errorf("got error %v, %d requests, of a %q; want one of a worker", err, called, peer)
					}
					return
				}
				if !errors.Is(err, ErrAuth) || errors.Is(err, ErrConnection) || called != 0 {
					t.Errorf("got error %v and %d requests, want %v and none", err, called, ErrAuth)
				}
				if err == nil || !strings.Contains(err.Error(), tc.atClient) {
					t.Errorf("the client: got error %v, want %q", err, tc.atClient)
				}
				if got := strings.ReplaceAll(log.String(), "\\", ""); tc.logged != "" && !strings.Contains(got, tc.logged) {
					t.Errorf("the server's log: got %q, want %q", got, tc.logged)
				}
			})
		})
	}
}

// Programs that know nothing of us get nothing: neither a certificate to look at nor more than a
// hello.
func TestTLSWithoutTheSecretIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := faultnet.New(1)
		ln, err := n.Host("s").Listen("s:7000")
		if err != nil {
			t.Fatal(err)
		}
		server, client := secured(t, Config{Secret: []byte("x")}, Config{})
		serve(t, ln, new(handler), server)
		nc, err := n.Host("c").Dial(t.Context(), "s:7000")
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		// With a good certificate even.
		if err := tls.Client(nc, client.Identity.Client()).Handshake(); err == nil {
			t.Error("TLS without the secret: got no error")
		}
	})
}

// What somebody on the way recorded is of no use to him: random bytes of the other end are in every
// proof.
func TestARecordedConnectionCannotBePlayedAgain(t *testing.T) {
	for _, secure := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := faultnet.New(1)
			ln, err := n.Host("s").Listen("s:7000")
			if err != nil {
				t.Fatal(err)
			}
			server, client := Config{Secret: []byte("x")}, Config{Secret: []byte("x")}
			if secure {
				server, client = secured(t, server, client)
			}
			served := 0
			serve(t, ln, &handler{serve: func(context.Context, *Request) (Response, error) {
				served++
				return Response{Message: &wire.Ack{}}, nil
			}}, server)
			var sent bytes.Buffer
			client.Network = networkFunc(func(ctx context.Context, addr string) (net.Conn, error) {
				nc, err := n.Host("c").Dial(ctx, addr)
				return recorder{nc, &sent}, err
			})
			c := NewClient("s:7000", client)
			if _, err := c.Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
				t.Fatal(err)
			}
			c.Close()
			if secure && bytes.Contains(sent.Bytes(), []byte("worker 0")) {
				t.Error("the certificate's name can be read on the way")
			}
			nc, err := n.Host("evil").Dial(t.Context(), "s:7000")
			if err != nil {
				t.Fatal(err)
			}
			go nc.Write(sent.Bytes())
			b, _ := io.ReadAll(nc)
			nc.Close()
			if served != 1 || len(b) != 73 || b[72] != 0 {
				t.Errorf("TLS %t: played again: %d requests served, %d bytes answered; want 1, and a hello with a refusal", secure, served, len(b))
			}
		})
	}
}

type recorder struct {
	net.Conn
	sent *bytes.Buffer
}

func (r recorder) Write(b []byte) (int, error) {
	r.sent.Write(b)
	return r.Conn.Write(b)
}

// Whoever changes a byte on the way ends the connection; no request or answer comes out changed.
func TestBytesChangedOnTheWayEndTheConnection(t *testing.T) {
	for at := 0; at < 4000; at += 101 {
		synctest.Test(t, func(t *testing.T) {
			n := faultnet.New(1)
			ln, err := n.Host("s").Listen("s:7000")
			if err != nil {
				t.Fatal(err)
			}
			server, client := secured(t, Config{Secret: []byte("x")}, Config{Secret: []byte("x"), Connections: 1})
			wrong := 0
			serve(t, ln, &handler{serve: func(_ context.Context, r *Request) (Response, error) {
				if !bytes.Equal(r.Payload, pattern(1, 2000)) {
					wrong++
				}
				return Response{Message: &wire.Ack{}}, nil
			}}, server)
			left := at
			client.Network = networkFunc(func(ctx context.Context, addr string) (net.Conn, error) {
				nc, err := n.Host("c").Dial(ctx, addr)
				return &changer{nc, &left}, err
			})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			c := NewClient("s:7000", client)
			defer c.Close()
			if _, err := c.Call(ctx, &wire.Push{}, &wire.Ack{}, nil, pattern(1, 2000)); err == nil && left < 0 && at != 73 && at != 74 { // two bytes there mean nothing
				t.Errorf("byte %d changed: the call ended well", at)
			}
			if wrong > 0 {
				t.Errorf("byte %d changed: a request came out changed", at)
			}
		})
	}
}

// A changer changes the byte number left of what is written.
type changer struct {
	net.Conn
	left *int
}

func (c *changer) Write(b []byte) (int, error) {
	if *c.left >= 0 && *c.left < len(b) {
		b = bytes.Clone(b)
		b[*c.left] ^= 0x10
	}
	*c.left -= len(b)
	return c.Conn.Write(b)
}
