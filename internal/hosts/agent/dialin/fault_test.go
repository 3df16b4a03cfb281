package dialin

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
)

// A lab is a network on fake time with a launcher at 10.0.0.1. No agent there starts a process:
// fake time stands still while one runs.
type lab struct {
	t      *testing.T
	net    *faultnet.Network
	secret Secret
}

const launcherIP, launcherAddress = "10.0.0.1", "10.0.0.1:1"

func inLab(t *testing.T, test func(*lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(&lab{t, faultnet.New(1), NewSecret()}) })
}

// launcher starts one; kill ends it as kill -9 does.
func (b *lab) launcher() (l *Listener, kill func()) {
	b.t.Helper()
	h := b.net.Host(launcherIP)
	ln, err := h.Listen(launcherAddress)
	if err != nil {
		b.t.Fatal(err)
	}
	l, err = listen(Config{Secret: b.secret, Lease: 4 * time.Second, Build: "build 1", Logger: slog.New(slog.DiscardHandler)}, ln)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { l.Close() })
	return l, func() { h.Kill(false); l.stop() }
}

// A labAgent is an agent of a lab.
type labAgent struct {
	*faultnet.Host
	cancel context.CancelCauseFunc
	ended  chan struct{}
	err    error // once ended

	// at is when it ended.
	at time.Time
}

// agent starts one at a host.
func (b *lab) agent(ip, name string, rejoin time.Duration) *labAgent {
	ctx, cancel := context.WithCancelCause(b.t.Context())
	a := &labAgent{Host: b.net.Host(ip), cancel: cancel, ended: make(chan struct{})}
	cfg := JoinConfig{
		Addresses: func() ([]string, error) { return []string{launcherAddress}, nil },
		Secret:    b.secret, Info: Info{Name: name, Build: "build 1"}, Rejoin: rejoin,
		Serve: agent.Config{Logger: slog.New(slog.DiscardHandler)}, Logger: slog.New(slog.DiscardHandler),
	}
	go func() {
		defer close(a.ended)
		a.err = join(ctx, cfg, a.Dial)
		a.at = time.Now()
	}()
	return a
}

// kill is kill -9 of the agent; silent: its machine loses its power.
func (a *labAgent) kill(silent bool) {
	a.Kill(silent)
	a.cancel(nil)
	<-a.ended
}

func (b *lab) dial(l *Listener, name string) *Machine {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	m, err := l.Dial(ctx, name)
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

// ask sends a question through the session.
func (b *lab) ask(m *Machine) error {
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	a, err := m.Ask(ctx, agent.Question{Programs: []string{"no-such-program"}})
	if err == nil && len(a.Missing) != 1 {
		b.t.Errorf("answer %+v, want one missing program", a)
	}
	return err
}

func (b *lab) wantChange(l *Listener, name string, joined bool) {
	b.t.Helper()
	select {
	case c := <-l.Changes():
		if c.Info.Name != name || c.Joined != joined {
			b.t.Errorf("change of %s, joined %v, want %s, %v", c.Info.Name, c.Joined, name, joined)
		}
	case <-time.After(time.Minute):
		b.t.Fatalf("no change of %s, joined %v", name, joined)
	}
}

// wantEnd wants the agent to end with an error within some time.
func (b *lab) wantEnd(a *labAgent, since time.Time, within time.Duration, want error) {
	b.t.Helper()
	<-a.ended
	if d := a.at.Sub(since); d > within || !errors.Is(a.err, want) {
		b.t.Errorf("Join ended after %s: %v, want %v within %s", d, a.err, want, within)
	}
}

// A session outlives connections that break, are silent, or work in one direction only, as long as
// the lease has not expired.
func TestSessionOutlivesItsConnections(t *testing.T) {
	inLab(t, func(b *lab) {
		l, _ := b.launcher()
		b.agent("10.0.0.2", "n1", 0)
		m := b.dial(l, "n1")
		for phase := range 10 { // of the last ping
			for _, c := range []struct {
				name  string
				fault func()
			}{
				{"cut", func() { b.net.Cut("10.0.0.2", launcherIP) }},
				{"silent", func() { b.net.Drop("10.0.0.2", launcherIP); b.net.Drop(launcherIP, "10.0.0.2") }},
				{"agent not heard", func() { b.net.Drop("10.0.0.2", launcherIP) }},
				{"launcher not heard", func() { b.net.Drop(launcherIP, "10.0.0.2") }},
				{"refused", func() { b.net.Cut("10.0.0.2", launcherIP); b.net.Refuse("10.0.0.2", launcherIP) }},
			} {
				time.Sleep(3*time.Second + time.Duration(phase)*50*time.Millisecond)
				c.fault()
				time.AfterFunc(2200*time.Millisecond, b.net.Heal)
				if err := b.ask(m); err != nil {
					t.Fatalf("%s in phase %d: %v", c.name, phase, err)
				}
			}
		}
		b.wantChange(l, "n1", true)
		synctest.Wait()
		select {
		case c := <-l.Changes():
			t.Errorf("change %+v, want none", c)
		default:
		}
	})
}

// When the lease expires both ends declare the other lost, the agent not later than the launcher,
// whichever direction is gone.
func TestLeaseExpires(t *testing.T) {
	for _, drop := range [][][2]string{
		{{"10.0.0.2", launcherIP}, {launcherIP, "10.0.0.2"}},
		{{"10.0.0.2", launcherIP}},
		{{launcherIP, "10.0.0.2"}},
	} {
		inLab(t, func(b *lab) {
			l, _ := b.launcher()
			a := b.agent("10.0.0.2", "n1", 0)
			m := b.dial(l, "n1")
			time.Sleep(3 * time.Second)
			start := time.Now()
			for _, d := range drop {
				b.net.Drop(d[0], d[1])
			}
			<-m.Gone()
			if d := time.Since(start); d > 5500*time.Millisecond {
				t.Errorf("%q: the launcher declared the agent lost after %s, want at most 4s", drop, d)
			}
			gone := time.Now()
			b.wantEnd(a, start, 4*time.Second, ErrLost)
			if a.at.After(gone) {
				t.Errorf("%q: the agent ended %s after the launcher had declared it lost", drop, a.at.Sub(gone))
			}
			b.wantChange(l, "n1", true)
			b.wantChange(l, "n1", false)
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			b.net.Heal()
			b.agent("10.0.0.2", "n1", 0)
			b.wantChange(l, "n1", true)
			if err := b.ask(b.dial(l, "n1")); err != nil {
				t.Error(err)
			}
		})
	}
}

// An agent that was killed and started anew takes the place of the dead one: at once if the
// launcher knows that the old connection is broken.
func TestAgentThatIsStartedAnewTakesThePlace(t *testing.T) {
	for _, silent := range []bool{false, true} {
		inLab(t, func(b *lab) {
			l, _ := b.launcher()
			a := b.agent("10.0.0.2", "n1", 0)
			m := b.dial(l, "n1")
			time.Sleep(3 * time.Second)
			a.kill(silent)
			b.net.Host("10.0.0.2").Listen("10.0.0.2:7") // the machine is there again
			start := time.Now()
			b.agent("10.0.0.2", "n1", 0)
			b.wantChange(l, "n1", true)
			b.wantChange(l, "n1", false)
			b.wantChange(l, "n1", true)
			if d, most := time.Since(start), map[bool]time.Duration{false: 100 * time.Millisecond, true: 2 * time.Second}[silent]; d > most {
				t.Errorf("silent %v: it took %s, want at most %s", silent, d, most)
			}
			<-m.Gone()
			if err := b.ask(b.dial(l, "n1")); err != nil {
				t.Error(err)
			}
		})
	}
}

// Of two agents with one name on different hosts the first stays, even while it has no connection.
func TestNameIsTakenWhileTheLeaseLasts(t *testing.T) {
	inLab(t, func(b *lab) {
		l, _ := b.launcher()
		b.agent("10.0.0.2", "n1", 0)
		m := b.dial(l, "n1")
		start := time.Now()
		second := b.agent("10.0.0.3", "n1", 0)
		b.wantEnd(second, start, 9*time.Second, ErrRefused)
		if !strings.Contains(second.err.Error(), "an agent named n1 has already joined from 10.0.0.2") {
			t.Errorf("Join: %v, want that the name is taken", second.err)
		}
		if err := b.ask(m); err != nil {
			t.Error(err)
		}
		// The first one dies; the other is tried again and takes the name when the lease is
		// over.
		b.net.Drop("10.0.0.2", launcherIP)
		b.net.Drop(launcherIP, "10.0.0.2")
		start = time.Now()
		third := b.agent("10.0.0.3", "n1", 0)
		b.wantChange(l, "n1", true)
		b.wantChange(l, "n1", false)
		if d := time.Since(start); d < 3500*time.Millisecond {
			b.t.Errorf("the name was given away after %s, want no sooner than the lease ends", d)
		}
		b.wantChange(l, "n1", true)
		if err := b.ask(b.dial(l, "n1")); err != nil {
			t.Error(err)
		}
		third.cancel(nil)
	})
}

// When the launcher is killed the agent ends; with a time to rejoin it goes to the next launcher,
// which has nothing of the old one but the secret.
func TestKilledLauncher(t *testing.T) {
	inLab(t, func(b *lab) {
		l, kill := b.launcher()
		ends, stays := b.agent("10.0.0.2", "n1", 0), b.agent("10.0.0.3", "n2", time.Minute)
		if _, err := l.Wait(b.t.Context(), func(all []Info) bool { return len(all) == 2 }); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		kill()
		time.Sleep(time.Second)
		l, _ = b.launcher() // at the same address, within the lease
		b.wantEnd(ends, start, 4*time.Second, ErrLost)
		if err := b.ask(b.dial(l, "n2")); err != nil {
			t.Error(err)
		}
		if all := l.Agents(); len(all) != 1 {
			t.Errorf("agents %+v, want n2 alone", all)
		}
		l.Close()
		b.wantEnd(stays, start, time.Minute, nil)
	})
}

// A launcher that stops before its job is over sends its agents to the next one; those that shall
// not look for it end with code 0.
func TestAbandonedAgentsLookForTheNextLauncher(t *testing.T) {
	inLab(t, func(b *lab) {
		l, _ := b.launcher()
		ends, stays := b.agent("10.0.0.2", "n1", 0), b.agent("10.0.0.3", "n2", time.Minute)
		for _, name := range []string{"n1", "n2"} {
			if err := b.dial(l, name).Close(); err != nil {
				t.Error(err)
			}
		}
		start := time.Now()
		if err := l.Abandon(); err != nil {
			t.Error(err)
		}
		b.wantEnd(ends, start, time.Second, nil)
		time.Sleep(20 * time.Second)
		l, _ = b.launcher()
		b.dial(l, "n2")
		l.Close()
		b.wantEnd(stays, start, time.Minute, nil)
	})
}

// An agent looks for the next launcher for the time that it was given, and no longer.
func TestRejoinEnds(t *testing.T) {
	inLab(t, func(b *lab) {
		l, kill := b.launcher()
		a := b.agent("10.0.0.2", "n1", 10*time.Second)
		b.dial(l, "n1")
		start := time.Now()
		kill()
		time.AfterFunc(time.Minute, func() { a.cancel(nil) })
		b.wantEnd(a, start, 16*time.Second, ErrLost)
	})
}
