package dialin

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/framing"
	"github.com/paragon-train/paragon/internal/store/identity"
)

// Connections without the secret take no place from agents, not even from those of their own
// address, end within the time for a handshake, and leave nothing behind.
func TestStrangersKeepNobodyOut(t *testing.T) {
	inLab(t, func(b *lab) {
		l, _ := b.launcher()
		h := b.net.Host("10.0.0.2")
		start := time.Now()
		var strangers []net.Conn
		for i := range 2 * maxPending {
			c, err := h.Dial(b.t.Context(), launcherAddress)
			if err != nil {
				b.t.Fatal(err)
			}
			strangers = append(strangers, c)
			switch i % 4 { // some say something
			case 1:
				c.Write([]byte("\x16\x03\x01\x02\x00\x01"))
			case 2:
				c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
			}
		}
		b.agent("10.0.0.2", "n1", 0)
		if err := b.ask(b.dial(l, "n1")); err != nil {
			b.t.Error(err)
		}
		if d := time.Since(start); d > 2*time.Second {
			b.t.Errorf("the agent was kept out for %s, want at most 2s", d)
		}
		for _, c := range strangers {
			c.SetReadDeadline(start.Add(handshakeTimeout + time.Second))
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				b.t.Fatalf("a connection without a handshake was not closed after %s", handshakeTimeout)
			}
			c.Close()
		}
	})
}

// Bytes of a handshake that come one by one do not hold a connection open.
func TestSlowHandshakeEnds(t *testing.T) {
	inLab(t, func(b *lab) {
		b.launcher()
		c, err := b.net.Host("10.0.0.2").Dial(b.t.Context(), launcherAddress)
		if err != nil {
			b.t.Fatal(err)
		}
		defer c.Close()
		start := time.Now()
		for _, x := range []byte("\x16\x03\x01\x02\x00" + strings.Repeat("\x01", 100)) {
			if _, err := c.Write([]byte{x}); err != nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if d := time.Since(start); d > handshakeTimeout+time.Second {
			b.t.Errorf("the connection was open for %s, want %s", d, handshakeTimeout)
		}
	})
}

// tlsTo is a connection to a listener after its handshake.
func tlsTo(t *testing.T, l *Listener, cfg *tls.Config, server string) (*tls.Conn, error) {
	t.Helper()
	cfg.ServerName = server
	c, err := tls.Dial("tcp", l.Addresses()[0], cfg)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.NetConn().Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c, nil
}

func sharedKeys(t *testing.T, s Secret) *identity.Shared {
	t.Helper()
	k, err := identity.NewShared(s.key[:], purpose)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Whoever has not the right keys for that end, or asks for an older TLS, gets no welcome.
func TestOnlyTheRightKeysGetAWelcome(t *testing.T) {
	l := startListener(t, Config{})
	own := sharedKeys(t, l.cfg.Secret)
	foreign, err := identity.NewAuthority(purpose)
	if err != nil {
		t.Fatal(err)
	}
	imposter, err := foreign.Issue(identity.Agent, "n1")
	if err != nil {
		t.Fatal(err)
	}
	worker, err := l.authority.Issue(identity.Worker, "n1")
	if err != nil {
		t.Fatal(err)
	}
	// trusting takes any launcher: here only what the launcher takes counts.
	trusting := func(cfg *tls.Config) *tls.Config {
		cfg.VerifyConnection, cfg.InsecureSkipVerify, cfg.RootCAs = nil, true, nil
		return cfg
	}
	old := own.Client()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	for _, tc := range []struct {
		name   string
		cfg    *tls.Config
		server string
	}{
		{"no certificate", &tls.Config{InsecureSkipVerify: true}, serverJoin},
		{"another secret", trusting(sharedKeys(t, NewSecret()).Client()), serverJoin},
		{"the launcher's own key", trusting(own.Server()), serverJoin},
		{"TLS 1.2", old, serverJoin},
		{"another server name", own.Client(), "launcher"},
		{"the secret in place of an identity", trusting(own.Client()), serverAgent},
		{"an identity in place of the secret", trusting(worker.Client()), serverJoin},
		{"another launcher's agent", trusting(imposter.Client()), serverAgent},
		{"another role", trusting(worker.Client()), serverAgent},
	} {
		c, err := tlsTo(t, l, tc.cfg, tc.server)
		var w welcome
		if err == nil {
			err = errors.Join(framing.WriteJSON(c, hello{Ask: askSession, Info: Info{Name: "n1", Build: "build 1"}}, maxMessage), framing.ReadJSON(c, &w, maxMessage))
		}
		if err == nil {
			t.Errorf("%s: welcome %+v, want none", tc.name, w)
		}
	}
	if all := l.Agents(); len(all) != 0 {
		t.Errorf("agents %+v, want none", all)
	}
}

// An agent does not talk to an agent, even if somebody connects the two: their keys are not those
// of a launcher.
func TestAgentTakesNoAgentForItsLauncher(t *testing.T) {
	secret := NewSecret()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", sharedKeys(t, secret).Client())
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); framing.WriteJSON(c, welcome{Session: "x", Lease: time.Second}, maxMessage) }()
		}
	}()
	err = Join(t.Context(), JoinConfig{
		Addresses: func() ([]string, error) { return []string{ln.Addr().String()}, nil },
		Secret:    secret, Info: Info{Name: "n1", Build: "build 1"}, Logger: slog.New(slog.DiscardHandler),
	})
	if !errors.Is(err, ErrRefused) || !errors.Is(err, identity.ErrSecret) {
		t.Errorf("Join: %v, want that the other end has not the launcher's key", err)
	}
}

// A launcher with the secret that says what makes no sense ends the agent with an error, and
// nothing else.
func TestWelcomesThatMakeNoSense(t *testing.T) {
	secret := NewSecret()
	authority, err := identity.NewAuthority(purpose)
	if err != nil {
		t.Fatal(err)
	}
	id, err := authority.Issue(identity.Agent, "n1")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		w    welcome
		then string // sent behind the welcome
	}{
		{"no identity", welcome{Session: "x", Lease: time.Second}, ""},
		{"an identity that is none", welcome{Session: "x", Identity: "abc", Lease: time.Second}, ""},
		{"a negative lease, and no frames", welcome{Identity: id.Encode(), Lease: -1}, strings.Repeat("x", 100)},
		{"an unknown refusal", welcome{Refused: "?", Reason: "?"}, ""},
	} {
		ln, err := tls.Listen("tcp", "127.0.0.1:0", sharedKeys(t, secret).Server())
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			ln.Close() // later attempts are refused
			var h hello
			framing.ReadJSON(c, &h, maxMessage)
			framing.WriteJSON(c, tc.w, maxMessage)
			io.WriteString(c, tc.then)
			io.Copy(io.Discard, c)
			c.Close()
		}()
		ended := make(chan error, 1)
		go func() {
			ended <- Join(t.Context(), JoinConfig{
				Addresses: func() ([]string, error) { return []string{ln.Addr().String()}, nil },
				Secret:    secret, Info: Info{Name: "n1", Build: "build 1"}, Logger: slog.New(slog.DiscardHandler), Timeout: time.Second,
			})
		}()
		if err := await(t, ended); err == nil {
			t.Errorf("%s: Join: nil, want an error", tc.name)
		}
	}
}

// What an end with the secret must not say is refused with a reason, or ends its connection.
// Nothing else is disturbed.
func TestHellosThatMakeNoSense(t *testing.T) {
	l := startListener(t, Config{})
	ended := startAgent(t, t.Context(), l, "n1")
	m, err := l.Dial(withPatience(t), "n1")
	if err != nil {
		t.Fatal(err)
	}
	say := func(b []byte) (w welcome, err error) {
		c, err := tlsTo(t, l, sharedKeys(t, l.cfg.Secret).Client(), serverJoin)
		if err != nil {
			return w, err
		}
		if _, err := c.Write(b); err != nil {
			return w, err
		}
		return w, framing.ReadJSON(c, &w, maxMessage)
	}
	message := func(v any) []byte {
		var b bytes.Buffer
		if err := framing.WriteJSON(&b, v, maxMessage); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for _, h := range []hello{
		{}, {Ask: "?"}, {Ask: askControl}, {Ask: askSession}, {Ask: askSession, Info: Info{Name: "a b", Build: "build 1"}},
		{Ask: askSession, Info: Info{Name: "n2", Build: "build 1", Slots: 1 << 30}}, {Ask: askSession, Info: Info{Name: "n2", Build: "build 1", Address: "x"}},
		{Ask: askSession, Info: Info{Name: "n2", Build: "build 1", GPUs: -1}}, {Ask: askSession, Info: Info{Name: strings.Repeat("n", 40<<10), Build: "build 1"}},
		{Ask: askResume, Session: m.session.id}, // of another agent, without its identity
	} {
		w, err := say(message(h))
		if err != nil || w.Refused == "" || w.Reason == "" && w.Refused != refusedSession {
			t.Errorf("hello %.200q: refused %q (%.200s), error %v, want a refusal with a reason", fmt.Sprint(h), w.Refused, w.Reason, err)
		}
	}
	for _, b := range [][]byte{
		binary.LittleEndian.AppendUint32(nil, maxMessage+1), binary.LittleEndian.AppendUint32(nil, 1<<32-1),
		append(binary.LittleEndian.AppendUint32(nil, 3), "{x}"...), append(binary.LittleEndian.AppendUint32(nil, 2), "[]"...),
	} {
		if w, err := say(b); err == nil {
			t.Errorf("%q: welcome %+v, want an end", b, w)
		}
	}
	echo(t, m, "still there")
	l.Close()
	if err := await(t, ended); err != nil {
		t.Error(err)
	}
}

// The launcher's user sees who was refused, once, and no secret.
func TestRefusalsAreLoggedOnce(t *testing.T) {
	var log output
	l := startListener(t, Config{})
	l.refusals.log = slog.New(slog.NewTextHandler(&log, nil))
	for range 3 {
		for _, tc := range []struct {
			secret Secret
			build  string
		}{{NewSecret(), "build 1"}, {l.cfg.Secret, "build 2"}} {
			err := Join(t.Context(), JoinConfig{
				Addresses: func() ([]string, error) { return l.Addresses(), nil },
				Secret:    tc.secret, Info: Info{Name: "n1", Build: tc.build}, Logger: slog.New(slog.DiscardHandler),
			})
			if !errors.Is(err, ErrRefused) {
				t.Errorf("Join: %v, want ErrRefused", err)
			}
		}
	}
	for deadline := time.Now().Add(patience); strings.Count(log.String(), "\n") < 2 && time.Now().Before(deadline); runtime.Gosched() {
	}
	text := log.String()
	if strings.Count(text, "\n") != 2 || !strings.Contains(text, "refused: it has another secret") || !strings.Contains(text, "is another build (build 2)") {
		t.Errorf("the log is\n%s\nwant one line of each refusal", text)
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	s := NewSecret()
	key := s.Encode()[len(secretPrefix):]
	cfg := Config{Secret: s}
	nested := struct{ inner Secret }{s}
	var log output
	slog.New(slog.NewJSONHandler(&log, nil)).Error("x", "secret", s, "config", cfg)
	encoded, err := json.Marshal(struct{ S Secret }{s})
	if err != nil {
		t.Fatal(err)
	}
	printed := fmt.Sprintf("%v %+v %#v %s %x %d %q %v %+v %d %v %x", s, s, s, s, s, s, s, cfg.Secret, nested, nested, &s, s.hidden()) + log.String() + string(encoded)
	numbers := strings.Trim(fmt.Sprint(s.key[:4]), "[]")
	if strings.Contains(printed, key) || strings.Contains(printed, fmt.Sprintf("%x", s.key[:4])) || strings.Contains(printed, numbers) {
		t.Errorf("printed: %s", printed)
	}
}

func FuzzReadMessage(f *testing.F) {
	var b bytes.Buffer
	framing.WriteJSON(&b, hello{Ask: askSession, Info: Info{Name: "n1", Slots: 2}}, maxMessage)
	f.Add(b.Bytes())
	b.Reset()
	framing.WriteJSON(&b, welcome{Refused: refusedName, Reason: "x", Lease: time.Second}, maxMessage)
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		var h hello
		if framing.ReadJSON(bytes.NewReader(b), &h, maxMessage) == nil && h.Info.Check() == nil {
			var again hello
			var out bytes.Buffer
			if err := errors.Join(framing.WriteJSON(&out, h, maxMessage), framing.ReadJSON(&out, &again, maxMessage)); err != nil || again != h {
				t.Errorf("%+v became %+v, %v", h, again, err)
			}
		}
		var w welcome
		framing.ReadJSON(bytes.NewReader(b), &w, maxMessage)
	})
}

func FuzzParseSecret(f *testing.F) {
	f.Add(NewSecret().Encode())
	f.Add("paragon-secret-1 AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSecret(text)
		if err != nil {
			if len(text) > 60 && strings.Contains(err.Error(), text[30:60]) {
				t.Errorf("the error holds the text: %v", err)
			}
			return
		}
		if s.Encode() != strings.TrimSpace(text) {
			t.Errorf("%q became %q", text, s.Encode())
		}
	})
}
