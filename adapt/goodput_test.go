package adapt

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

type goodputOracle struct {
	Eval struct {
		Perf, Grad   []float64
		InitialBatch int `json:"init_batch_size"`
		Rows         []struct {
			Nodes, Replicas                 int
			LocalBatch                      int `json:"atomic_bsz"`
			Accumulation                    int `json:"accum_steps"`
			Throughput, Efficiency, Goodput float64
		}
	} `json:"goodput_eval"`
	Optimize []struct {
		MaxBatch        int   `json:"max_batch_size"`
		Range           []int `json:"atomic_bsz_range"`
		Accumulation    bool
		Nodes, Replicas int
		Goodput         float64
		LocalBatch      int `json:"atomic_bsz"`
		Steps           int `json:"accum_steps"`
	} `json:"goodput_optimize"`
	Speedup []struct {
		Nodes, Replicas int
		Speedup         float64
	}
	Fit map[string]fitOracle
}

type fitOracle struct {
	Nodes, Replicas []int
	LocalBatch      []int     `json:"atomic_bsz"`
	Accumulation    []float64 `json:"accum_step_time"`
	Step            []float64 `json:"optim_step_time"`
	Params          []float64
	Objective       float64
}

func (o *goodputOracle) goodput() Goodput {
	return Goodput{Model: paramsOf(o.Eval.Perf), Noise: Noise{Sqr: o.Eval.Grad[0], Var: o.Eval.Grad[1]}, InitialBatch: o.Eval.InitialBatch}
}

func TestGoodputAgreesWithOracle(t *testing.T) {
	var o goodputOracle
	oracle(t, "goodput.json", &o)
	g := o.goodput()
	if len(o.Eval.Rows) < 7 || len(o.Optimize) < 16 {
		t.Fatalf("got %d and %d rows", len(o.Eval.Rows), len(o.Optimize))
	}
	for _, r := range o.Eval.Rows {
		scale := float64(r.Replicas*r.LocalBatch*(r.Accumulation+1)) / float64(g.InitialBatch)
		throughput, efficiency := Throughput(g.Model, r.Nodes, r.Replicas, r.LocalBatch, r.Accumulation), g.Noise.Efficiency(scale)
		goodput := g.At(r.Nodes, r.Replicas, r.LocalBatch, r.Accumulation)
		if !near(throughput, r.Throughput, 1e-9) || !near(efficiency, r.Efficiency, 1e-9) || !near(goodput, r.Goodput, 1e-9) {
			t.Errorf("%+v: got throughput %.12g, efficiency %.12g, goodput %.12g", r, throughput, efficiency, goodput)
		}
	}
	for _, r := range o.Optimize {
		l := Limits{MaxBatch: r.MaxBatch, Accumulation: r.Accumulation}
		if r.Range != nil {
			l.MinLocal, l.MaxLocal = r.Range[0], r.Range[1]
		}
		if got := g.grid(r.Nodes, r.Replicas, l); got.LocalBatch != r.LocalBatch || got.Accumulation != r.Steps || !near(got.Goodput, r.Goodput, 1e-9) {
			t.Errorf("%+v on the reference's grid: got %+v", r, got)
		}
		if got, err := g.Best(r.Nodes, r.Replicas, l); err != nil || !(got.Goodput >= r.Goodput*(1-1e-12)) {
			t.Errorf("%+v: got %+v, %v", r, got, err)
		}
	}
	l := Limits{MaxBatch: 1280, MinLocal: 64, MaxLocal: 256}
	for _, r := range o.Speedup {
		if r.Replicas == 0 {
			continue // no replica, no speedup
		}
		if got := g.grid(r.Nodes, r.Replicas, l).Goodput / g.grid(1, 1, l).Goodput; !near(got, r.Speedup, 1e-9) {
			t.Errorf("speedup of %d replicas on %d nodes: got %.12g, want %.12g", r.Replicas, r.Nodes, got, r.Speedup)
		}
	}
}

// grid is the reference's choice: 50 global batches in geometric progression.
func (g Goodput) grid(nodes, replicas int, l Limits) (best Choice) {
	low, high := max(l.MinLocal, 1), l.MaxLocal
	if high == 0 {
		high = l.MaxBatch
	}
	k, initial := float64(replicas), float64(g.InitialBatch)
	first, last := math.Max(initial, float64(low)*k), float64(l.MaxBatch)
	for i := range 50 {
		batch := first * math.Pow(last/first, float64(i)/49)
		local := batch / k
		s, m := 0, 0.0
		if l.Accumulation {
			s = max(int(math.Ceil(local/float64(high)-1e-8))-1, 0)
			if replicas == 1 && local > initial*(1+1e-12) {
				s = max(s, 1)
			}
			m = math.Ceil(local/float64(s+1) - 1e-8)
		} else {
			m = math.Ceil(local - 1e-8)
			if replicas == 1 {
				m = initial
			}
		}
		m = min(max(m, float64(low)), float64(high))
		if got := g.At(nodes, replicas, int(m), s); got > best.Goodput*(1+1e-12) {
			best = Choice{LocalBatch: int(m), Accumulation: s, Goodput: got}
		}
	}
	return best
}

// opaque hides what a model is made of, so that Best asks for every configuration.
type opaque struct{ Model }

// randomJob draws a model, noise and limits, among them extreme ones.
func randomJob(rng *rand.Rand, largest int) (g Goodput, nodes, replicas int, l Limits) {
	tenTo := func(low, high float64) float64 { return math.Pow(10, low+(high-low)*rng.Float64()) }
	some := func(x float64) float64 {
		if rng.IntN(6) == 0 {
			return tiny
		}
		return x
	}
	a := AllReduce{some(tenTo(-4, 0)), some(tenTo(-6, -1)), some(tenTo(-4, 1)), some(tenTo(-5, -1)), some(tenTo(-4, 0)), some(tenTo(-5, -1)), 1 + 9*rng.Float64()*rng.Float64()}
	if rng.IntN(5) == 0 {
		a.Gamma = 1
	}
	g = Goodput{Model: a, Noise: Noise{Sqr: tenTo(-4, 1), Var: tenTo(-4, 2)}, InitialBatch: 1 + rng.IntN(largest/2)}
	switch rng.IntN(8) {
	case 0:
		g.Noise.Sqr = -1
	case 1:
		g.Noise.Var = 0
	}
	replicas = 1 + rng.IntN(16)*rng.IntN(2)
	nodes = 1 + rng.IntN(replicas)
	l.Accumulation = rng.IntN(4) > 0
	if rng.IntN(5) > 0 {
		l.MaxBatch = g.InitialBatch + rng.IntN(largest-g.InitialBatch)
	}
	if rng.IntN(2) == 0 {
		l.MinLocal = 1 + rng.IntN(min(g.InitialBatch, 16))
	}
	if rng.IntN(3) > 0 {
		l.MaxLocal = max(l.MinLocal, 1) + rng.IntN(1+rng.IntN(largest))
	}
	return g, nodes, replicas, l
}

// within is an error where a choice is not within the limits.
func (g Goodput) within(c Choice, replicas int, l Limits) error {
	batch := replicas * c.LocalBatch * (c.Accumulation + 1)
	switch {
	case batch < g.InitialBatch:
		return fmt.Errorf("global batch %d is below the initial one", batch)
	case l.MaxBatch > 0 && batch > l.MaxBatch:
		return fmt.Errorf("global batch %d is too large", batch)
	case c.LocalBatch < max(l.MinLocal, 1) || l.MaxLocal > 0 && c.LocalBatch > l.MaxLocal:
		return errors.New("the local batch is out of bounds")
	case c.Accumulation < 0 || c.Accumulation > 0 && !l.Accumulation:
		return errors.New("accumulation is not allowed")
	case replicas == 1 && c.Accumulation == 0 && batch > g.InitialBatch:
		return errors.New("one micro-gradient a step above the initial batch")
	case l.MaxBatch == 0 && l.MaxLocal == 0 && max((g.InitialBatch-1)/replicas+1, l.MinLocal) != c.LocalBatch*(c.Accumulation+1):
		return fmt.Errorf("global batch %d does not stay at the initial one", batch)
	}
	return nil
}

// The search finds what asking for every configuration finds, and never less than the reference's
// grid where that stays within the limits.
func TestBestIsTheBestOfAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	jobs, impossible, accumulated := 4000, 0, 0
	if testing.Short() {
		jobs = 1000
	}
	for range jobs {
		g, nodes, replicas, l := randomJob(rng, 600)
		about := fmt.Sprintf("%+v on %d replicas, %d nodes, %+v", g, replicas, nodes, l)
		got, err := g.Best(nodes, replicas, l)
		all, allErr := Goodput{opaque{g.Model}, g.Noise, g.InitialBatch}.Best(nodes, replicas, l)
		if (err == nil) != (allErr == nil) {
			t.Fatalf("%s: got %+v, %v; from every configuration %+v, %v", about, got, err, all, allErr)
		}
		if err != nil {
			impossible++
			if !errors.Is(err, ErrNoChoice) {
				t.Fatalf("%s: %v, want ErrNoChoice", about, err)
			}
			continue
		}
		if got.Accumulation > 0 {
			accumulated++
		}
		if err := g.within(got, replicas, l); err != nil {
			t.Fatalf("%s: got %+v: %v", about, got, err)
		}
		if got.Goodput != g.At(nodes, replicas, got.LocalBatch, got.Accumulation) {
			t.Fatalf("%s: got %+v, but At says %g", about, got, g.At(nodes, replicas, got.LocalBatch, got.Accumulation))
		}
		if !near(got.Goodput, all.Goodput, 1e-12) {
			t.Fatalf("%s: got %+v, of every configuration the best is %+v", about, got, all)
		}
		if l.MaxBatch > 0 {
			if grid := g.grid(nodes, replicas, l); g.within(grid, replicas, l) == nil && !(got.Goodput >= grid.Goodput*(1-1e-12)) {
				t.Fatalf("%s: got %+v, the reference's grid has %+v", about, got, grid)
			}
		}
	}
	if impossible > jobs/2 || accumulated < jobs/20 {
		t.Errorf("of %d jobs %d were impossible and %d accumulated: the test shows little", jobs, impossible, accumulated)
	}
}

// The best local batch below the largest one, with several accumulated ones: the limit decides how
// many.
func TestBestWithSeveralBatchesBelowTheLargest(t *testing.T) {
	below := 0
	for local := 8; local <= 60; local++ {
		for replicas := 2; replicas <= 4; replicas++ {
			g := Goodput{AllReduce{AlphaCompute: 1e-5, BetaCompute: 0.001, AlphaReplicas: 0.5, Gamma: 1.3}, Noise{Sqr: 1, Var: 10}, 16}
			l := Limits{MaxBatch: 1000, MaxLocal: local, Accumulation: true}
			got, err := g.Best(1, replicas, l)
			want, _ := Goodput{opaque{g.Model}, g.Noise, g.InitialBatch}.Best(1, replicas, l)
			if err != nil || got != want {
				t.Errorf("%d replicas, MaxLocal %d: got %+v, %v, want %+v", replicas, local, got, err, want)
			}
			if got.Accumulation > 1 && got.LocalBatch < local {
				below++
			}
		}
	}
	if below < 10 {
		t.Errorf("only %d choices are of more than two micro-batches below the largest", below)
	}
}

func BenchmarkBest(b *testing.B) {
	var o goodputOracle
	oracle(b, "goodput.json", &o)
	g := o.goodput()
	for _, noise := range []float64{0.000502, 0.1} {
		for _, l := range []Limits{{MaxBatch: 4096, Accumulation: true}, {MaxBatch: 4096, MaxLocal: 256, Accumulation: true}, {MaxBatch: 4096, MinLocal: 16, MaxLocal: 32, Accumulation: true}, {MaxBatch: 4096}} {
			for _, replicas := range []int{1, 4, 16, 64} {
				g.Noise.Var = noise
				b.Run(fmt.Sprintf("var=%g/local=%d/accumulation=%t/replicas=%d", noise, l.MaxLocal, l.Accumulation, replicas), func(b *testing.B) {
					for b.Loop() {
						if _, err := g.Best((replicas+3)/4, replicas, l); err != nil && !strings.Contains(err.Error(), "possible") {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
