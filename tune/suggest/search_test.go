package suggest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/tune"
)

// The search for the most promising point does not stop at the candidates that it has drawn: from few of them it climbs to where no point of a
// fine grid is much better.
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
		got := (&GP{Candidates: 4}).search(m, []float64{best}, func(x []float64) ([]float64, float64) {
			sd := p.at(x)
			return p.means, sd
		}, nil, nil, rand.New(rand.NewPCG(seed, 2)))
		if v := value(got); v < most-0.3 {
			t.Errorf("seed %d: got %v with a logarithm of the expected improvement of %.3f, want one near %.3f", seed, got, v, most)
		}
	}
}
