package nn_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/alloctest"
	"github.com/paragon-train/paragon/nn"
)

// Updating parameters piece by piece with Parallel, between steps or as each gradient is ready,
// gives what a plain loop gives.
func TestParallelUpdatesLikeAPlainLoop(t *testing.T) {
	const rate, piece = 0.1, 100
	m := joins
	train := func(threads int, update func(p *nn.Program, k int), atReady bool) [][]float32 {
		loss, p := compile(t, m, nn.Config{Threads: threads})
		fillInputs(t, loss.Graph(), p, nil, m.classes, 1)
		for range 3 {
			ready := func(k int) { update(p, k) }
			if !atReady {
				ready = nil
			}
			if err := p.Step(context.Background(), ready); err != nil {
				t.Fatal(err)
			}
			for k := range p.Params() {
				if !atReady {
					update(p, k)
				}
			}
		}
		var values [][]float32
		for _, q := range p.Params() {
			values = append(values, append([]float32(nil), q.Value...))
		}
		return values
	}
	plain := func(value, grad []float32) {
		for i, g := range grad {
			value[i] -= rate * g
		}
	}
	want := train(1, func(p *nn.Program, k int) { plain(p.Params()[k].Value, p.Params()[k].Gradient) }, false)
	var calls atomic.Int64
	parallel := func(p *nn.Program, k int) {
		q := p.Params()[k]
		n := (len(q.Value) + piece - 1) / piece
		p.Parallel(n, func(i int) {
			calls.Add(1)
			lo, hi := i*piece, min((i+1)*piece, len(q.Value))
			plain(q.Value[lo:hi], q.Gradient[lo:hi])
		})
	}
	for _, atReady := range []bool{false, true} {
		for _, threads := range []int{1, 3} {
			calls.Store(0)
			got := train(threads, parallel, atReady)
			for k := range want {
				for i := range want[k] {
					if got[k][i] != want[k][i] {
						t.Fatalf("%d threads, at ready %v: parameter %d [%d] is %g, want %g", threads, atReady, k, i, got[k][i], want[k][i])
					}
				}
			}
			if calls.Load() == 0 {
				t.Errorf("%d threads, at ready %v: Parallel called nothing", threads, atReady)
			}
		}
	}
}

func TestParallelAllocatesNothingAndMayFollowClose(t *testing.T) {
	_, p := compile(t, joins, nn.Config{Threads: 2})
	var sum atomic.Int64
	add := func(i int) { sum.Add(int64(i)) }
	if n := alloctest.PerRun(5, func() { p.Parallel(10, add) }); n != 0 {
		t.Errorf("Parallel allocates %v times", n)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	sum.Store(0)
	p.Parallel(4, add)
	if sum.Load() != 6 {
		t.Errorf("after Close, the sum of what Parallel(4) called is %d, want 6", sum.Load())
	}
}
