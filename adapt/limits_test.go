package adapt

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestBestRefuses(t *testing.T) {
	g := Goodput{Model: AllReduce{AlphaCompute: 1, BetaCompute: 1, Gamma: 1}, Noise: Noise{Sqr: 1, Var: 1}, InitialBatch: 64}
	for _, tc := range []struct {
		name            string
		g               Goodput
		nodes, replicas int
		l               Limits
		say             string
	}{
		{"no model", Goodput{InitialBatch: 64}, 1, 1, Limits{}, "Model is nil"},
		{"no initial batch", Goodput{Model: g.Model}, 1, 1, Limits{}, "initial batch is 0"},
		{"no replicas", g, 1, 0, Limits{}, "0 replicas"},
		{"negative replicas", g, 1, -2, Limits{}, "-2 replicas"},
		{"no nodes", g, 0, 1, Limits{}, "0 nodes"},
		{"more nodes than replicas", g, 3, 2, Limits{}, "2 replicas, want at least one on each of 3 nodes"},
		{"max batch below the initial one", g, 1, 1, Limits{MaxBatch: 63}, "MaxBatch is 63, below the initial batch of 64"},
		{"negative max batch", g, 1, 1, Limits{MaxBatch: -1}, "MaxBatch is -1"},
		{"local batch above the initial one", g, 1, 1, Limits{MaxBatch: 512, MinLocal: 65}, "MinLocal is 65, which excludes the initial batch of 64"},
		{"negative local batch", g, 1, 1, Limits{MinLocal: -1}, "MinLocal is -1"},
		{"negative largest local batch", g, 1, 1, Limits{MaxLocal: -1}, "MaxLocal is -1"},
		{"bounds the wrong way round", g, 1, 1, Limits{MinLocal: 32, MaxLocal: 16}, "MaxLocal is 16, below MinLocal of 32"},
		{"negative servers", g, 1, 1, Limits{MaxServers: -1}, "MaxServers is -1"},
		{"servers without servers", g, 1, 1, Limits{MaxServers: 2}, "model adapt.AllReduce has no WithServers"},
	} {
		_, err := tc.g.Best(tc.nodes, tc.replicas, tc.l)
		if err == nil || !strings.Contains(err.Error(), tc.say) {
			t.Errorf("%s: got error %v, want %q", tc.name, err, tc.say)
		}
		if errors.Is(err, ErrNoChoice) {
			t.Errorf("%s: %v is ErrNoChoice, want an error of its own", tc.name, err)
		}
	}
}

func TestImpossibleSizesAreErrNoChoice(t *testing.T) {
	g := Goodput{Model: AllReduce{AlphaCompute: 1, BetaCompute: 1, Gamma: 1}, Noise: Noise{Sqr: 1, Var: 1}, InitialBatch: 64}
	for _, tc := range []struct {
		name     string
		replicas int
		l        Limits
		say      string
	}{
		{"more replicas than examples", 129, Limits{MaxBatch: 128}, "129 replicas: no batch size is possible within the limits: initial batch 64, MaxBatch 128"},
		{"the smallest local batches are too many", 9, Limits{MaxBatch: 128, MinLocal: 15}, "MinLocal 15"},
		{"no memory, no accumulation", 1, Limits{MaxBatch: 128, MaxLocal: 63}, "MaxLocal 63, accumulation false"},
		{"no memory, batch stays", 1, Limits{MaxLocal: 63}, "MaxLocal 63"},
		{"no multiple in the range", 3, Limits{MaxBatch: 64}, "3 replicas"},
		{"no multiple of the micro-batches", 1, Limits{MaxBatch: 65, MinLocal: 15, MaxLocal: 15, Accumulation: true}, "MaxLocal 15"},
	} {
		got, err := g.Best(1, tc.replicas, tc.l)
		if !errors.Is(err, ErrNoChoice) || !strings.Contains(err.Error(), tc.say) {
			t.Errorf("%s: got %+v, %v, want ErrNoChoice with %q", tc.name, got, err, tc.say)
		}
	}
	for _, seconds := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-320} {
		g.Model = constant(seconds)
		if got, err := g.Best(1, 1, Limits{}); !errors.Is(err, ErrNoChoice) {
			t.Errorf("steps of %g s: got %+v, %v, want ErrNoChoice", seconds, got, err)
		}
	}
	g.Model = AllReduce{AlphaCompute: math.NaN(), Gamma: 1}
	if got, err := g.Best(1, 2, Limits{MaxBatch: 100}); !errors.Is(err, ErrNoChoice) {
		t.Errorf("a model of NaN: got %+v, %v, want ErrNoChoice", got, err)
	}
}

// constant is a model whose steps all take so many seconds.
type constant float64

func (c constant) StepTime(nodes, replicas, localBatch, accumulation int) float64 { return float64(c) }

// Without MaxBatch the batch stays at the initial one, rounded up as little as replicas and
// micro-batches need.
func TestBatchStaysWithoutMaxBatch(t *testing.T) {
	g := Goodput{Model: AllReduce{.1, .01, .1, .01, .1, .01, 1.5}, Noise: Noise{Sqr: 1, Var: 100}, InitialBatch: 64}
	for _, tc := range []struct {
		replicas int
		l        Limits
		m, s     int
	}{
		{1, Limits{}, 64, 0},
		{1, Limits{Accumulation: true}, 64, 0},
		{2, Limits{}, 32, 0},
		{3, Limits{}, 22, 0},
		{5, Limits{Accumulation: true}, 13, 0},
		{100, Limits{}, 1, 0},
		{3, Limits{MaxLocal: 100}, 22, 0},
		{3, Limits{MaxLocal: 10, Accumulation: true}, 8, 2}, // 22 in 3 of 8
		{1, Limits{MaxLocal: 30, Accumulation: true}, 22, 2},
		{4, Limits{MinLocal: 20}, 20, 0},
	} {
		if got, err := g.Best(1, tc.replicas, tc.l); err != nil || got.LocalBatch != tc.m || got.Accumulation != tc.s {
			t.Errorf("%d replicas, %+v: got %+v, %v, want %d, %d", tc.replicas, tc.l, got, err, tc.m, tc.s)
		}
	}
}

func TestLimitsAreValidForSomeNumberOfReplicas(t *testing.T) {
	for _, l := range []Limits{{}, {MaxBatch: 64}, {MinLocal: 64}, {MinLocal: 16, MaxLocal: 32}, {MaxBatch: 512, MinLocal: 64, MaxLocal: 64}} {
		if err := l.Validate(64); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if err := (Limits{}).Validate(0); err == nil {
		t.Error("an initial batch of 0 is valid")
	}
}

func TestAtOfImpossibleConfigurationsIsZero(t *testing.T) {
	g := Goodput{Model: AllReduce{.1, .01, .1, .01, .1, .01, 1.5}, Noise: Noise{Sqr: 1, Var: 1}, InitialBatch: 64}
	if got := g.At(1, 1, 64, 0); !(got > 0) {
		t.Errorf("got %g, want a goodput", got)
	}
	for _, tc := range [][4]int{{0, 1, 64, 0}, {1, 0, 64, 0}, {2, 1, 64, 0}, {1, 1, 0, 0}, {1, 1, 64, -1}} {
		if got := g.At(tc[0], tc[1], tc[2], tc[3]); got != 0 {
			t.Errorf("%v: got %g, want 0", tc, got)
		}
	}
}

// Whatever comes, a choice is within the limits, or there is an error.
func FuzzBest(f *testing.F) {
	f.Add(uint64(1), 64, 1, 1, 512, 0, 0, true)
	f.Add(uint64(2), 64, 2, 7, 0, 3, 20, true)
	f.Add(uint64(3), 1, 1, 1, 1, 1, 1, false)
	f.Add(uint64(4), math.MaxInt32, 1, 3, math.MaxInt32, 0, 100, true)
	f.Add(uint64(5), 128, 4, 16, math.MaxInt, 16, 64, true)
	f.Add(uint64(6), 7, 1, 2, 1000000, 0, 1, true)
	f.Fuzz(func(t *testing.T, seed uint64, initial, nodes, replicas, most, low, high int, accumulation bool) {
		rng := rand.New(rand.NewPCG(seed, 0))
		g, _, _, _ := randomJob(rng, 600)
		g.InitialBatch = initial
		l := Limits{MaxBatch: most, MinLocal: low, MaxLocal: high, Accumulation: accumulation}
		got, err := g.Best(nodes, replicas, l)
		if err != nil {
			if got != (Choice{}) {
				t.Fatalf("got %+v and the error %v", got, err)
			}
			return
		}
		if err := g.within(got, replicas, l); err != nil {
			t.Fatalf("%+v on %d nodes, %d replicas, %+v: got %+v: %v", g, nodes, replicas, l, got, err)
		}
		if got.Goodput != g.At(nodes, replicas, got.LocalBatch, got.Accumulation) || !(got.Goodput > 0) {
			t.Fatalf("%+v, %+v: got %+v, but At says %g", g, l, got, g.At(nodes, replicas, got.LocalBatch, got.Accumulation))
		}
	})
}
