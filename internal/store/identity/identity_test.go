package identity

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/testing/faultnet"
)

func authority(t testing.TB, job string) *Authority {
	t.Helper()
	a, err := NewAuthority(job)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t testing.TB, a *Authority, role string) *Identity {
	t.Helper()
	id, err := a.Issue(role, role+" 7")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// meet runs a handshake and returns how it ended for both. As in a job, the server says a word when
// it is content.
func meet(t *testing.T, client, server *tls.Config) (atClient, atServer error) {
	t.Helper()
	n := faultnet.New(1)
	ln, err := n.Host("s").Listen(":1")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a, err := n.Host("c").Dial(t.Context(), "s:1")
	if err != nil {
		t.Fatal(err)
	}
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		s := tls.Server(b, server)
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte{1})
		}
		b.Close()
		ended <- err
	}()
	c := tls.Client(a, client)
	err = c.Handshake()
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	a.Close()
	return err, <-ended
}

// Who gets in: both ends of one job, valid, each in a role that the other expects.
func TestBothEndsMustBeOfTheJob(t *testing.T) {
	for _, tc := range []struct {
		name               string
		client, server     func(t *testing.T, job, other *Authority) *tls.Config
		atClient, inServer string // in the errors; none: there is none
	}{
		{"a worker to a server", of(Worker, Server), at(Server, Worker, Server), "", ""},
		{"any role", of(Launcher), at(Scheduler), "", ""},
		{"the client's authority is another's", foreign(of(Worker, Server)), at(Server, Worker),
			"the other end is of another job", "bad certificate"},
		{"the server's authority is another's", of(Worker, Server), foreign(at(Server, Worker)),
			"the other end is of another job", "bad certificate"},
		{"a worker in a server's place", of(Worker, Server), at(Worker, Worker), "certificate of another role: got worker, want server", ""},
		{"a launcher at a server", of(Launcher, Server), at(Server, Worker, Server),
			"our role has no business there", "certificate of another role: got launcher, want worker or server"},
		{"no certificate", func(t *testing.T, job, _ *Authority) *tls.Config {
			cfg := issue(t, job, Worker).Client(Server)
			cfg.Certificates = nil
			return cfg
		}, at(Server, Worker), "start every process of the job through launch", "didn't provide a certificate"},
		{"a certificate that the client signed itself", func(t *testing.T, job, _ *Authority) *tls.Config {
			id := issue(t, job, Worker)
			cfg := id.Client(Server)
			forged := template("job", "worker 7")
			forged.DNSNames, forged.IsCA, forged.BasicConstraintsValid = []string{"worker.paragon"}, true, true
			cert, err := sign(forged, forged, id.key.Public().(ed25519.PublicKey), id.key)
			if err != nil {
				t.Fatal(err)
			}
			return showing(cfg, id.key, cert)
		}, at(Server, Worker), "the other end is of another job", "the other end is of another job"},
		{"a certificate that a worker signed as if it were the authority", func(t *testing.T, job, _ *Authority) *tls.Config {
			id := issue(t, job, Worker)
			cfg := id.Client(Server)
			forged := template("job", "server 0")
			forged.DNSNames, forged.ExtKeyUsage = []string{"server.paragon"}, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
			cert, err := sign(forged, id.leaf, id.key.Public().(ed25519.PublicKey), id.key)
			if err != nil {
				t.Fatal(err)
			}
			return showing(cfg, id.key, cert, id.leaf)
		}, at(Server, Server), "the other end is of another job", "the other end is of another job"},
		{"an older TLS", func(t *testing.T, job, _ *Authority) *tls.Config {
			cfg := of(Worker, Server)(t, job, nil)
			cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
			return cfg
		}, at(Server, Worker), "protocol version", "unsupported versions"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			job, other := authority(t, "job"), authority(t, "job")
			atClient, atServer := meet(t, tc.client(t, job, other), tc.server(t, job, other))
			for _, end := range []struct {
				name, want string
				err        error
			}{{"the client", tc.atClient, atClient}, {"the server", tc.inServer, atServer}} {
				switch {
				case end.want == "" && tc.atClient == "" && end.err != nil:
					t.Errorf("%s: got error %v, want none", end.name, end.err)
				case end.want != "" && (end.err == nil || !strings.Contains(Explain(end.err).Error(), end.want)):
					t.Errorf("%s: got error %v, want %q", end.name, end.err, end.want)
				}
			}
		})
	}
}

type configOf func(t *testing.T, job, other *Authority) *tls.Config

func of(role string, to ...string) func(*testing.T, *Authority, *Authority) *tls.Config {
	return func(t *testing.T, job, _ *Authority) *tls.Config { return issue(t, job, role).Client(to...) }
}

func at(role string, from ...string) func(*testing.T, *Authority, *Authority) *tls.Config {
	return func(t *testing.T, job, _ *Authority) *tls.Config { return issue(t, job, role).Server(from...) }
}

// showing makes a client show these certificates, whatever the server would take.
func showing(cfg *tls.Config, key ed25519.PrivateKey, certs ...*x509.Certificate) *tls.Config {
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c := &tls.Certificate{PrivateKey: key}
		for _, cert := range certs {
			c.Certificate = append(c.Certificate, cert.Raw)
		}
		return c, nil
	}
	return cfg
}

// foreign is what has the right words in it, but comes from another authority.
func foreign(c configOf) func(*testing.T, *Authority, *Authority) *tls.Config {
	return func(t *testing.T, job, other *Authority) *tls.Config { return c(t, other, job) }
}

// Clocks of hosts differ by hours at worst; a job lasts for months at most.
func TestCertificatesAreValidForTheLengthOfAJob(t *testing.T) {
	for _, tc := range []struct {
		name string
		wait time.Duration
		ok   bool
	}{
		{"at once", 0, true},
		{"after half a year", 180 * 24 * time.Hour, true},
		{"after two years", 2 * 366 * 24 * time.Hour, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := authority(t, "job")
				client, server := issue(t, a, Worker), issue(t, a, Server)
				time.Sleep(tc.wait)
				atClient, atServer := meet(t, client.Client(Server), server.Server(Worker))
				if ok := atClient == nil; ok != tc.ok {
					t.Errorf("client: got error %v, want one: %t", atClient, !tc.ok)
				}
				if !tc.ok && (!strings.Contains(Explain(atClient).Error(), "compare the clocks") || atServer == nil) {
					t.Errorf("got errors %v and %v, want both to fail and one to say what to do", Explain(atClient), atServer)
				}
			})
		})
	}
	t.Run("to a host whose clock is 23 hours behind", func(t *testing.T) {
		a := authority(t, "job")
		client, server := issue(t, a, Worker).Client(Server), issue(t, a, Server).Server(Worker)
		server.Time = func() time.Time { return time.Now().Add(-23 * time.Hour) }
		if atClient, atServer := meet(t, client, server); atClient != nil || atServer != nil {
			t.Errorf("got errors %v and %v, want none", atClient, atServer)
		}
	})
}

func TestAnExpiredClientIsToldSo(t *testing.T) {
	a := authority(t, "job")
	client, server := issue(t, a, Worker).Client(Server), issue(t, a, Server).Server(Worker)
	server.Time = func() time.Time { return time.Now().Add(2 * validity) }
	atClient, atServer := meet(t, client, server)
	if atServer == nil || atClient == nil || !strings.Contains(Explain(atClient).Error(), "by the other end's clock our certificate is not valid") {
		t.Errorf("got errors %v and %v", Explain(atClient), atServer)
	}
}

// TLS gives the client no second way in: a session of before cannot be resumed.
func TestSessionsAreNotResumed(t *testing.T) {
	a := authority(t, "job")
	client, server := issue(t, a, Worker).Client(Server), issue(t, a, Server).Server(Worker)
	client.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	verified := 0
	verify := server.VerifyConnection
	server.VerifyConnection = func(s tls.ConnectionState) error {
		if verified++; s.DidResume {
			t.Error("a session was resumed")
		}
		return verify(s)
	}
	for range 3 {
		if atClient, atServer := meet(t, client, server); atClient != nil || atServer != nil {
			t.Fatalf("got errors %v and %v", atClient, atServer)
		}
	}
	if verified != 3 {
		t.Errorf("verified %d connections, want 3", verified)
	}
}

func TestEncodedIdentityIsTheSame(t *testing.T) {
	a := authority(t, "0123456789abcdef")
	for _, role := range roles {
		want := issue(t, a, role)
		text := want.Encode()
		got, err := Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if got.Role() != role || got.Name() != role+" 7" || got.Job() != "0123456789abcdef" || got.Encode() != text {
			t.Errorf("got %s (role %s), want %s", got, got.Role(), want)
		}
		if len(text) > 2000 {
			t.Errorf("%s takes %d letters, want no more than 2000", got, len(text))
		}
		if atClient, atServer := meet(t, got.Client(), issue(t, a, Server).Server(role)); atClient != nil || atServer != nil {
			t.Errorf("%s: got errors %v and %v", got, atClient, atServer)
		}
	}
	if _, err := a.Issue("king", "king 1"); err == nil {
		t.Error("issued a certificate of a role that there is not")
	}
}

func TestDecodeRefusesAndSaysNothingOfTheText(t *testing.T) {
	a, b := authority(t, "a"), authority(t, "b")
	worker, server := issue(t, a, Worker), issue(t, a, Server)
	mix := func(issuer, leaf *x509.Certificate, key ed25519.PrivateKey) string {
		return (&Identity{issuer: issuer, leaf: leaf, key: key}).Encode()
	}
	raw, _ := base64.RawURLEncoding.DecodeString(worker.Encode())
	other := append([]byte{9}, raw[1:]...)
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", "", "want version 1"},
		{"no base64", "???", "not base64"},
		{"lines", worker.Encode()[:8] + "\n" + worker.Encode()[8:], "not base64"},
		{"another version", base64.RawURLEncoding.EncodeToString(other), "want version 1"},
		{"cut in the first certificate", base64.RawURLEncoding.EncodeToString(raw[:100]), "certificate of the authority"},
		{"cut in the key", base64.RawURLEncoding.EncodeToString(raw[:len(raw)-10]), "key of"},
		{"too long", strings.Repeat("A", 1<<20), "at most"},
		{"another's key", mix(a.cert, worker.leaf, server.key), "the key is not that"},
		{"another authority", mix(b.cert, worker.leaf, worker.key), "not of the authority"},
		{"the authority itself", mix(a.cert, a.cert, a.key), "has names"},
	} {
		_, err := Decode(tc.text)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got error %v, want %q", tc.name, err, tc.want)
		} else if len(tc.text) > 20 && strings.Contains(err.Error(), tc.text[:20]) {
			t.Errorf("%s: the error holds some of the text: %v", tc.name, err)
		}
	}
}

// A key must not get into a log, whatever somebody prints.
func TestPrintedIdentityHasNoKey(t *testing.T) {
	id := issue(t, authority(t, "job"), Worker)
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "id", id, "in", struct{ ID *Identity }{id})
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "id", id, "in", struct{ ID *Identity }{id})
	type config struct{ ID *Identity }
	text := log.String() + fmt.Sprintf("%v %+v %#v %s %v %+v %#v", id, id, id, id, config{id}, config{id}, config{id})
	for _, secret := range []string{fmt.Sprint(id.key.Seed()[:4])[1:10], fmt.Sprintf("%#v", id.key.Seed()[:4])[7:20], id.Encode()[len(id.Encode())-40:]} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in %s", secret, text)
		}
	}
	if !strings.Contains(text, "worker 7 of job job") {
		t.Errorf("got %s, want the name in it", text)
	}
	var none *Identity
	if got := none.String(); got != "nobody" {
		t.Errorf("no identity: got %q", got)
	}
}

func TestRoleOfNeedsAHandshake(t *testing.T) {
	if role, err := RoleOf(tls.ConnectionState{}); err == nil {
		t.Errorf("got %q, want an error", role)
	}
	if !errors.Is(fmt.Errorf("x: %w", ErrRole), ErrRole) {
		t.Error("ErrRole cannot be asked for")
	}
}

// FuzzDecode: whatever the text, it is an identity that encodes to the same text, or an error.
func FuzzDecode(f *testing.F) {
	id := issue(f, authority(f, "job"), Worker)
	raw, _ := base64.RawURLEncoding.DecodeString(id.Encode())
	f.Add(raw)
	f.Add(raw[:200])
	f.Add([]byte{1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		text := base64.RawURLEncoding.EncodeToString(b)
		id, err := Decode(text)
		if err == nil && id.Encode() != text {
			t.Errorf("decoded and encoded it is another: %q", b)
		}
		Decode(string(b))
	})
}
