package suggest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/tune"
)

// The search for the most promising point does not stop at the candidates that it has drawn: from
// few of them it climbs to where no point of a fine grid is much better.
func TestTheSearchRefinesItsCandidates(t *testing.T) {
	m := newModel(tune.Space{tune.Real("a", 0, 1), tune.Real("b", 0, 1)})
	var x [][]float64
	var y []float64
	best := math.Inf(-1)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 8 {
		p := []float64{rng.Float64(), rng.Float64()}
		v := -4 * ((p[0]-0.3)*(p[0]-0.3) + (p[1]-0.6)*(p[1]-0.6))
		x, y, best = append(x, m.encode(p)), append(y, v), max(best, v)
	}
	process := newGP(gpTheta{-1.5, -1.5, 0, -6}, x, y)
	p := process.predictor()
	value := func(at []float64) float64 {
		sd := p.at(m.encode(at))
		return logImprovement(best, p.means[0], sd)
	}
	most := math.Inf(-1)
	for i := range 41 {
		for j := range 41 {
			most = max(most, value([]float64{float64(i) / 40, float64(j) / 40}))
		}
	}
	for seed := range uint64(10) {
		at := func(x []float64) ([]float64, float64) {
			sd := p.at(x)
			return p.means, sd
		}
		got := (&GP{Candidates: 4}).search(&hunt{m: m, bests: []float64{best}, at: at, rng: rand.New(rand.NewPCG(seed, 2))}, nil)
		if v := value(got); v < most-0.3 {
			t.Errorf("seed %d: got %v with a logarithm of the expected improvement of %.3f, want one near %.3f", seed, got, v, most)
		}
	}
}

// While trials run, numbers are proposed within gpReach of the best one, wherever more improvement
// is expected.
func TestSearchStaysWithinReach(t *testing.T) {
	m := newModel(tune.Space{tune.Real("x", 0, 10), tune.Choice("c", "one", "two"), tune.Real("y", 0, 1)})
	for _, near := range [][]float64{{0.2, 0.1, 0.9}, {0.5, 0.9, 0}} {
		for seed := range uint64(5) {
			far := func(x []float64) ([]float64, float64) {
				return []float64{-math.Abs(x[0]-near[0]) - math.Abs(x[2]-near[2])}, 0.1
			}
			got := (&GP{Candidates: 20}).search(&hunt{m: m, bests: []float64{0}, at: far, near: near, rng: rand.New(rand.NewPCG(seed, 3))}, nil)
			for _, i := range []int{0, 2} {
				u := m.toUnit(got)[i]
				if by := math.Abs(u - near[i]); by < gpReach-0.1 || by > gpReach+1e-9 {
					t.Errorf("seed %d near %v: got %v, %.3f away in %s, want just within %v", seed, near, got, by, m.dims[i].name, gpReach)
				}
			}
		}
	}
}

// A process that believes its means at further points keeps them and expects to learn nothing more
// there.
func TestBelievedPointsChangeNoMean(t *testing.T) {
	g := newGP(gpTheta{-1, -1, 0, -4}, [][]float64{{0.1, 0.2}, {0.5, 0.9}, {0.8, 0.3}}, []float64{-1, 0.5, 0.7})
	running := [][]float64{{0.3, 0.3}, {0.9, 0.9}}
	before, after := g.predictor(), g.believe(running).predictor()
	for _, at := range [][]float64{{0.3, 0.3}, {0.35, 0.3}, {0.9, 0.9}, {0.1, 0.9}, {0.6, 0.5}} {
		was, is := before.at(at), after.at(at)
		if d := math.Abs(after.means[0] - before.means[0]); d > 1e-6 {
			t.Errorf("at %v: the mean went from %v to %v", at, before.means[0], after.means[0])
		}
		if is > was {
			t.Errorf("at %v: the deviation went from %v to %v", at, was, is)
		}
	}
	if is := after.at(running[0]); is > 0.03 {
		t.Errorf("at the running trial %v: deviation %v, want next to none", running[0], is)
	}
}
