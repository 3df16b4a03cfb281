package transport_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
)

var seed = flag.Uint64("seed", 0, "run random faults with this seed only")

// Whatever the network does, every call ends in its time, and what it brings back is what was asked
// for.
func TestCallsUnderRandomFaultsEndInTimeWithTheRightAnswer(t *testing.T) {
	first, last := uint64(1), uint64(2)
	switch {
	case *seed != 0:
		first, last = *seed, *seed
	case os.Getenv("PARAGON_TEST_SLOW") != "":
		last = 8
	}
	for s := first; s <= last; s++ {
		t.Run(fmt.Sprintf("seed=%d", s), func(t *testing.T) {
			bubble(t, new(chaotic), Config{Secret: []byte("x")}, func(t *testing.T, n *faultnet.Network) { chaos(t, n, s, Config{Secret: []byte("x")}) })
		})
		t.Run(fmt.Sprintf("tls/seed=%d", s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // certificates are made on the bubble's time
				n := faultnet.New(1)
				ln, err := n.Host("s").Listen("s:7000")
				if err != nil {
					t.Fatal(err)
				}
				server, client := secured(t, Config{Secret: []byte("x")}, Config{Secret: []byte("x")})
				serve(t, ln, new(chaotic), server)
				chaos(t, n, s, client)
			})
		})
	}
}

// chaotic is a Handler that answers some requests at once.
type chaotic struct{ handler }

func (h *chaotic) Prompt(r *Request) (Response, bool, error) {
	if h := r.Head; len(h) > 0 && h[len(h)/2]%2 == 0 || r.Kind != wire.KindPull {
		return Response{}, false, nil
	}
	resp, err := h.Serve(context.Background(), r)
	return resp, true, err
}

func chaos(t *testing.T, n *faultnet.Network, s uint64, cfg Config) {
	// bubble's network has a seed of its own; the faults come from ours.
	faults, told := rand.New(rand.NewPCG(s, 1)), []string{}
	hosts := []string{"c0", "c1", "s"}
	stop := make(chan struct{})
	var network sync.WaitGroup
	network.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(faults.IntN(400)) * time.Millisecond):
				a, b := hosts[faults.IntN(2)], "s"
				if faults.IntN(2) == 0 {
					a, b = b, a
				}
				what := faults.IntN(6)
				switch what {
				case 0:
					n.Delay(a, b, 0, time.Duration(faults.IntN(1000))*time.Millisecond)
				case 1:
					n.Refuse(a, b)
				case 2:
					n.Drop(a, b)
				case 3, 4:
					n.Cut(a, b)
				case 5:
					n.Heal()
				}
				told = append(told, fmt.Sprintf("%s %s %s", []string{"delay", "refuse", "drop", "cut", "cut", "heal"}[what], a, b))
			}
		}
	})
	var wg sync.WaitGroup
	var mu sync.Mutex
	answered, failed := 0, 0
	for i := range 2 {
		cfg.Network, cfg.Connections = n.Host(hosts[i]), 2
		c := client(t, "s:7000", cfg)
		for g := range 4 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(s, uint64(10*i+g)))
				for k := range 40 {
					size := rng.IntN(1 << (1 + rng.IntN(19)))
					seq := uint64(i)<<40 | uint64(g)<<32 | uint64(k)
					limit := time.Duration(rng.IntN(3000)) * time.Millisecond
					ctx, cancel := context.WithTimeout(t.Context(), limit)
					start := time.Now()
					dst := make([]byte, size)
					var v wire.Value
					request := &wire.Pull{Origin: wire.Origin{Seq: seq}, Round: uint64(size)}
					var b []byte
					var err error
					ok := false
					if rng.IntN(2) == 0 {
						b, err, ok = started(ctx, c, request, &v, dst)
					}
					if !ok {
						b, err = c.Call(ctx, request, &v, dst)
					}
					if d := time.Since(start); d > limit+200*time.Millisecond {
						t.Errorf("a call with %v took %v: %v", limit, d, err)
					}
					mu.Lock()
					if err == nil {
						answered++
						if v.Round != seq || !bytes.Equal(b, pattern(seq, size)) {
							t.Errorf("call %x: another answer came: %+v, %d bytes", seq, v, len(b))
						}
					} else if failed++; !errors.Is(err, ErrConnection) && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("call %x: %v", seq, err)
					}
					mu.Unlock()
					clear(dst) // ours again: the race detector sees anybody else
					cancel()
					time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
				}
			})
		}
		defer func() {
			n.Heal()
			synctest.Wait() // connections that were reset are known to be
			for range 2 {
				if _, err := c.Call(t.Context(), &wire.Heartbeat{}, &wire.Ack{}, nil); err != nil {
					t.Errorf("%s, healed: %v", hosts[i], err)
				}
			}
		}()
	}
	wg.Wait()
	close(stop)
	network.Wait()
	synctest.Wait()
	if answered == 0 || failed == 0 {
		t.Errorf("%d calls answered and %d failed: the faults test nothing", answered, failed)
	}
	if t.Failed() {
		t.Logf("go test ./transport -run RandomFaults -seed %d: %s", s, strings.Join(told, ", "))
	}
}
