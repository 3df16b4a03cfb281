package jobtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/identity"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// listening is TCP, and remembers what is listened at.
type listening struct {
	mu    sync.Mutex
	addrs []string
}

func (l *listening) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return transport.TCP.Dial(ctx, addr)
}

func (l *listening) Listen(addr string) (net.Listener, error) {
	ln, err := transport.TCP.Listen(addr)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.addrs = append(l.addrs, ln.Addr().String())
	}
	return ln, err
}

// recording is TCP, and remembers what was sent on the last connection.
type recording struct{ sent *bytes.Buffer }

func (r recording) Listen(string) (net.Listener, error) { return nil, errors.ErrUnsupported }
func (r recording) Dial(ctx context.Context, addr string) (net.Conn, error) {
	nc, err := transport.TCP.Dial(ctx, addr)
	return recorded{nc, r.sent}, err
}

type recorded struct {
	net.Conn
	sent *bytes.Buffer
}

func (r recorded) Write(b []byte) (int, error) {
	r.sent.Write(b)
	return r.Conn.Write(b)
}

// hostile are clients that do not hold the secret. Each talks on a connection as long as it likes;
// the connection is closed afterwards.
func hostile(recording []byte) map[string]func(ctx context.Context, nc net.Conn, random *rand.Rand) {
	hello := append([]byte{'P', 'R', 'G', 'N', transport.Version, 1, 0, 0}, make([]byte, 32)...)
	until := func(ctx context.Context, nc net.Conn) {
		// The server closes the connection.
		nc.SetReadDeadline(time.Now().Add(10 * time.Second))
		defer context.AfterFunc(ctx, func() { nc.Close() })()
		io.Copy(io.Discard, nc)
	}
	return map[string]func(context.Context, net.Conn, *rand.Rand){
		"half open": func(ctx context.Context, nc net.Conn, _ *rand.Rand) { until(ctx, nc) },
		"half a handshake": func(ctx context.Context, nc net.Conn, _ *rand.Rand) {
			nc.Write(hello)
			until(ctx, nc)
		},
		"trickle": func(ctx context.Context, nc net.Conn, _ *rand.Rand) {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for _, b := range hello {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
				if _, err := nc.Write([]byte{b}); err != nil {
					return
				}
			}
			until(ctx, nc)
		},
		"garbage": func(_ context.Context, nc net.Conn, random *rand.Rand) {
			b := make([]byte, 1+random.IntN(16<<10))
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			nc.Write(b)
		},
		"huge lengths": func(ctx context.Context, nc net.Conn, _ *rand.Rand) {
			// Zeros prove nothing.
			b := append(bytes.Clone(hello), make([]byte, 32)...)
			nc.Write(append(b, bytes.Repeat([]byte{0xff}, 64)...))
			until(ctx, nc)
		},
		"TLS": func(_ context.Context, nc net.Conn, _ *rand.Rand) {
			nc.SetDeadline(time.Now().Add(time.Second))
			tls.Client(nc, &tls.Config{InsecureSkipVerify: true}).Handshake()
		},
		"a recording": func(ctx context.Context, nc net.Conn, _ *rand.Rand) {
			nc.Write(recording)
			until(ctx, nc)
		},
		"connect and go": func(context.Context, net.Conn, *rand.Rand) {},
	}
}

// Rounds go on, and come out right, while a thousand connections of all kinds of strangers come to
// scheduler and servers; and what they cost is given back.
func TestRoundsGoOnWhileStrangersCome(t *testing.T) {
	connections, rounds := int64(1000), 15
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		connections, rounds = 4000, 60
	}
	over := new(listening)
	job := New(t, Config{TCP: true, Over: over, TLS: true, Workers: 2, Servers: 2, Secret: []byte("secret"), Lease: 20 * time.Second})
	stores := job.Stores(t, "dist_sync")
	for _, kv := range stores {
		if err := kv.SetOptimizer(t.Context(), optim.Config{Name: "test", LearningRate: 1}); err != nil {
			t.Fatal(err)
		}
	}
	done := 0
	round := func() time.Duration {
		// All workers take part in the round.
		t.Helper()
		begin := time.Now()
		var all sync.WaitGroup
		for rank, kv := range stores {
			all.Go(func() { step(t, kv, rank, done) })
		}
		all.Wait()
		done++
		return time.Since(begin)
	}
	var init sync.WaitGroup
	for _, kv := range stores {
		init.Go(func() {
			if err := kv.Init(t.Context(), "x", make([]float32, 1000)); err != nil {
				t.Error(err)
			}
		})
	}
	init.Wait()
	var quiet, loud []time.Duration
	for range rounds {
		quiet = append(quiet, round())
	}
	before := runtime.NumGoroutine()

	// What somebody who listens would have of a connection that was in order.
	var sent bytes.Buffer
	tc := transport.Config{Network: recording{&sent}, Secret: []byte("secret"), Identity: job.identity(identity.Launcher, "tools")}
	if _, err := cluster.Control(t.Context(), job.scheduler, tc, []byte(`{"op":"status"}`)); err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var strangers sync.WaitGroup
	var counts sync.Map
	var total atomic.Int64
	kinds := hostile(sent.Bytes())
	for i, kind := range slices.Sorted(maps.Keys(kinds)) {
		count := new(atomic.Int64)
		counts.Store(kind, count)
		for lane := range 24 {
			// Each lane has one connection at a time.
			strangers.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), uint64(lane)))
				for ctx.Err() == nil {
					nc, err := transport.TCP.Dial(ctx, over.addrs[random.IntN(len(over.addrs))])
					if err != nil {
						continue
					}
					kinds[kind](ctx, nc, random)
					nc.Close()
					count.Add(1)
					total.Add(1)
				}
			})
		}
	}
	limit := time.Now().Add(20 * time.Second)
	for len(loud) < rounds || total.Load() < connections && time.Now().Before(limit) {
		loud = append(loud, round())
		if t.Failed() {
			break
		}
	}
	stop()
	strangers.Wait()
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if c, _ := counts.Load(kind); c.(*atomic.Int64).Load() == 0 && kind != "half open" {
			t.Errorf("%s: no connection has ended", kind)
		}
	}
	slices.Sort(quiet)
	slices.Sort(loud)
	t.Logf("rounds before: median %v, longest %v; among %d connections of strangers: %d rounds, median %v, longest %v",
		quiet[len(quiet)/2], quiet[len(quiet)-1], total.Load(), len(loud), loud[len(loud)/2], loud[len(loud)-1])
	if loud[len(loud)-1] > 10*time.Second {
		t.Errorf("a round took %v among strangers", loud[len(loud)-1])
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+5; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%d goroutines are left, %d were before", runtime.NumGoroutine(), before)
			break
		}
	}
	for range 3 {
		round()
	}
}

// step is one worker's part of a round: it pushes, pulls and looks at the sum.
func step(t *testing.T, kv kvstore.Store, rank, done int) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	g, out := make([]float32, 1000), make([]float32, 1000)
	for i := range g {
		g[i] = float32(rank + 1)
	}
	if err := kv.PushPull(ctx, "x", [][]float32{g}, [][]float32{out}); err != nil {
		t.Errorf("worker %d, round %d: %v", rank, done, err)
		return
	}
	if want := float32(3 * (done + 1)); out[0] != want || out[999] != want {
		t.Errorf("worker %d, round %d: got %v, want %v", rank, done, out[0], want)
	}
}
