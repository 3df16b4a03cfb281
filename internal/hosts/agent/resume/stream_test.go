package resume

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/testing/faultnet"
)

// A pair is both ends of a stream, and a network between them on fake time.
type pair struct {
	t          *testing.T
	net        *faultnet.Network
	there      net.Listener
	agent      *Stream // its end dials
	launcher   *Stream
	stop       context.CancelFunc
	connection int
}

// run runs a test on a pair whose connections are made anew when they break, after pause.
func run(t *testing.T, seed uint64, lease, pause time.Duration, test func(p *pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := faultnet.New(seed)
		l, err := n.Host("launcher").Listen("launcher:1")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		p := &pair{t: t, net: n, there: l, stop: stop, agent: New(Config{Lease: lease, Holder: true}), launcher: New(Config{Lease: lease})}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				p.launcher.Attach(c)
			}
		}()
		go func() {
			for h := n.Host("agent"); ; {
				attempt, done := context.WithTimeout(ctx, time.Second)
				c, err := h.Dial(attempt, "launcher:1")
				done()
				if err == nil {
					p.connection++
					<-p.agent.Attach(c)
				}
				select {
				case <-ctx.Done():
					return
				case <-p.agent.Done():
					return
				case <-time.After(pause):
				}
			}
		}()
		test(p)
		stop()
		l.Close()
		p.agent.Abort(nil)
		p.launcher.Abort(nil)
	})
}

func random(seed uint64, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return b
}

// send writes b in pieces and ends the stream.
func send(t *testing.T, s *Stream, b []byte, rng *rand.Rand) {
	for len(b) > 0 {
		n := min(len(b), 1+rng.IntN(100<<10))
		if _, err := s.Write(b[:n]); err != nil {
			t.Errorf("write: %v", err)
			return
		}
		b = b[n:]
	}
	s.CloseWrite()
}

// Whatever connections break, and whenever, every byte arrives once, in both directions.
func TestBytesArriveOnceOverRandomCuts(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	run(t, seed, 4*time.Second, 5*time.Millisecond, func(p *pair) {
		rng := rand.New(rand.NewPCG(seed, 1))
		up, down := random(seed, 9<<20), random(seed+1, 3<<20)
		go send(t, p.agent, up, rand.New(rand.NewPCG(seed, 2)))
		go send(t, p.launcher, down, rand.New(rand.NewPCG(seed, 3)))
		cuts := make(chan struct{})
		go func() {
			defer close(cuts)
			for range 300 {
				select {
				case <-p.launcher.Done():
					return
				case <-time.After(time.Duration(rng.IntN(int(6 * time.Millisecond)))):
				}
				switch rng.IntN(3) {
				case 0:
					p.net.Break("agent", "launcher", 10*time.Millisecond)
				default:
					p.net.Cut("agent", "launcher")
				}
			}
		}()
		p.net.Delay("agent", "launcher", 0, 3*time.Millisecond)
		p.net.Delay("launcher", "agent", 0, 3*time.Millisecond)
		gotDown := make(chan []byte)
		go func() {
			b, err := io.ReadAll(p.agent)
			if err != nil {
				t.Errorf("read: %v", err)
			}
			gotDown <- b
		}()
		gotUp, err := io.ReadAll(p.launcher)
		if err != nil {
			t.Error(err)
		}
		if !bytes.Equal(gotUp, up) {
			t.Errorf("agent to launcher: got %d bytes, want %d, the same", len(gotUp), len(up))
		}
		if got := <-gotDown; !bytes.Equal(got, down) {
			t.Errorf("launcher to agent: got %d bytes, want %d, the same", len(got), len(down))
		}
		<-p.agent.Done()
		<-p.launcher.Done()
		if p.agent.Err() != nil || p.launcher.Err() != nil {
			t.Errorf("ended with %v and %v, want nil", p.agent.Err(), p.launcher.Err())
		}
		<-cuts
		t.Logf("%d connections", p.connection)
	})
}

func TestLeaseExpiresOnBothEnds(t *testing.T) {
	run(t, 1, 4*time.Second, 100*time.Millisecond, func(p *pair) {
		time.Sleep(10 * time.Second)
		start := time.Now()
		p.net.Drop("agent", "launcher")
		p.net.Drop("launcher", "agent")
		<-p.agent.Done()
		<-p.launcher.Done()
		if d := time.Since(start); d > 4*time.Second || d < 2900*time.Millisecond {
			t.Errorf("it took %s", d)
		}
		if !errors.Is(p.agent.Err(), ErrLease) || !errors.Is(p.launcher.Err(), os.ErrDeadlineExceeded) {
			t.Errorf("ended with %v and %v, want ErrLease", p.agent.Err(), p.launcher.Err())
		}
	})
}

// Both ends hear of the end at once, not by the next ping.
func TestFinishIsPrompt(t *testing.T) {
	run(t, 1, 4*time.Second, time.Second, func(p *pair) {
		time.Sleep(time.Second)
		start := time.Now()
		go send(t, p.agent, random(1, Window+1000), rand.New(rand.NewPCG(1, 1)))
		if _, err := io.Copy(io.Discard, p.launcher); err != nil {
			t.Error(err)
		}
		finished := make(chan error, 1)
		go func() { finished <- p.agent.Finish(p.t.Context()) }()
		if err := errors.Join(p.launcher.Finish(p.t.Context()), <-finished); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d > 0 {
			t.Errorf("it took %s, want no time on a network without delay", d)
		}
	})
}
