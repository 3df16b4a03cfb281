package dialin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/process"
)

// patience is how long tests wait for something that must come; the machine may be busy.
const patience = 60 * time.Second

// An output collects what is written.
type output struct {
	mu    sync.Mutex
	b     bytes.Buffer
	first chan struct{} // nil, or closed by the first write
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.first != nil && o.b.Len() == 0 {
		close(o.first)
	}
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// startListener listens on this machine's loopback address.
func startListener(t *testing.T, cfg Config) *Listener {
	t.Helper()
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	if cfg.Build == "" {
		cfg.Build = "build 1"
	}
	if cfg.Secret.IsZero() {
		cfg.Secret = NewSecret()
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	l, err := Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// startAgent runs an agent in this process.
func startAgent(t *testing.T, ctx context.Context, l *Listener, name string) chan error {
	t.Helper()
	ended := make(chan error, 1)
	cfg := JoinConfig{
		Addresses: func() ([]string, error) { return l.Addresses(), nil },
		Secret:    l.cfg.Secret, Info: Info{Name: name, Slots: 2, Build: "build 1"},
		Serve: agent.Config{Grace: 100 * time.Millisecond}, Logger: slog.New(slog.DiscardHandler),
	}
	go func() { ended <- Join(ctx, cfg) }()
	return ended
}

func await(t *testing.T, ended chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		t.Fatal("the agent has not ended")
		return nil
	}
}

func withPatience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func echo(t *testing.T, m *Machine, text string) {
	t.Helper()
	var out output
	h, err := m.Start(withPatience(t), process.Spec{Name: "worker 0", Command: []string{"/bin/echo", text}}, process.Output{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if e := h.Exit(); !e.OK() || out.String() != text+"\n" {
		t.Errorf("%s, output %q, want exit 0 and %q", e, out.String(), text+"\n")
	}
}

// An agent dials in, is dialled, runs a process, is closed, can be dialled again, and ends with the
// job.
func TestAgentIsDialledAgainAndEndsWithTheJob(t *testing.T) {
	l := startListener(t, Config{})
	n10, n2 := startAgent(t, t.Context(), l, "n10"), startAgent(t, t.Context(), l, "n2")
	all, err := l.Wait(withPatience(t), func(all []Info) bool { return len(all) == 2 })
	if err != nil {
		t.Fatal(err)
	}
	if all[0].Name != "n2" || all[1].Name != "n10" || all[0].Slots != 2 || all[0].Address != "127.0.0.1" || all[0].Launcher != "127.0.0.1" {
		t.Errorf("agents %+v, want n2 and n10 at 127.0.0.1 with 2 slots", all)
	}
	for _, text := range []string{"first", "second", "third"} {
		m, err := l.Dial(withPatience(t), "n2")
		if err != nil {
			t.Fatal(err)
		}
		echo(t, m, text)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	for _, ended := range []chan error{n10, n2} {
		if err := await(t, ended); err != nil {
			t.Errorf("Join: %v, want nil", err)
		}
	}
}

func TestAgentThatLeavesIsGone(t *testing.T) {
	l := startListener(t, Config{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the host shuts down")
	ended := startAgent(t, ctx, l, "n1")
	if c := <-l.Changes(); !c.Joined || c.Info.Name != "n1" {
		t.Errorf("change %+v, want that n1 joined", c)
	}
	m, err := l.Dial(withPatience(t), "n1")
	if err != nil {
		t.Fatal(err)
	}
	out := output{first: make(chan struct{})}
	if _, err := m.Start(withPatience(t), process.Spec{Name: "worker 0", Command: []string{"/bin/sh", "-c", `trap 'echo left; exit 0' TERM; echo ready; while :; do sleep 0.01; done`}},
		process.Output{Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	<-out.first
	cancel(cause)
	if err := await(t, ended); !errors.Is(err, cause) {
		t.Errorf("Join: %v, want %v", err, cause)
	}
	<-m.Gone()
	if got := strings.TrimSpace(out.String()); got != "ready\nleft" {
		t.Errorf("output %q, want that the process left the job", got)
	}
	if c := <-l.Changes(); c.Joined || c.Info.Name != "n1" {
		t.Errorf("change %+v, want that n1 is gone", c)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func TestDismissedAgentEnds(t *testing.T) {
	l := startListener(t, Config{})
	ended := startAgent(t, t.Context(), l, "n1")
	m, err := l.Dial(withPatience(t), "n1")
	if err != nil {
		t.Fatal(err)
	}
	l.Dismiss("n1")
	if err := await(t, ended); err != nil {
		t.Errorf("Join: %v, want nil", err)
	}
	<-m.Gone()
	again := startAgent(t, t.Context(), l, "n1")
	if _, err := l.Dial(withPatience(t), "n1"); err != nil {
		t.Error(err)
	}
	l.Close()
	if err := await(t, again); err != nil {
		t.Errorf("Join: %v, want nil", err)
	}
}

func TestRefusedAgents(t *testing.T) {
	l := startListener(t, Config{})
	for _, tc := range []struct {
		name   string
		secret Secret
		info   Info
		want   string
	}{
		{"another secret", NewSecret(), Info{Name: "n2", Build: "build 1"}, "another secret"},
		{"another build", l.cfg.Secret, Info{Name: "n2", Build: "build 2"}, "is another build (build 2) than the launcher's (build 1)"},
	} {
		err := Join(t.Context(), JoinConfig{
			Addresses: func() ([]string, error) { return l.Addresses(), nil },
			Secret:    tc.secret, Info: tc.info, Logger: slog.New(slog.DiscardHandler),
		})
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want ErrRefused with %q", tc.name, err, tc.want)
		}
	}
}

func TestControlConnection(t *testing.T) {
	l := startListener(t, Config{Control: func(_ context.Context, c net.Conn) { io.Copy(c, c) }})
	c, err := DialControl(withPatience(t), l.Addresses(), l.cfg.Secret)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "status\n"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 7)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "status\n" {
		t.Errorf("got %q, %v", b, err)
	}
	if _, err := DialControl(withPatience(t), l.Addresses(), NewSecret()); err == nil || !strings.Contains(err.Error(), "another secret") {
		t.Errorf("with another secret: %v", err)
	}
}
