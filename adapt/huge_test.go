package adapt

import (
	"errors"
	"math"
	"testing"
)

// Limits as large as an int holds neither overflow nor take forever, also with a model that gives
// no time: the last one, without bandwidths.
func TestHugeLimits(t *testing.T) {
	for _, model := range []Model{
		AllReduce{AlphaCompute: 1e-2, BetaCompute: 1e-4, Gamma: 1},
		AllReduce{AlphaReplicas: 1, BetaCompute: 1e-4, Gamma: 2},
		ParameterServer{AlphaCompute: 1e-2, BetaCompute: 1e-4, Latency: 1, Gamma: 1},
	} {
		for _, noise := range []Noise{{Sqr: 1, Var: 1}, {Sqr: 0, Var: 1}, {Sqr: 1, Var: 0}, {Sqr: math.Inf(1), Var: math.NaN()}} {
			for _, l := range []Limits{
				{MaxBatch: 1 << 62, Accumulation: true}, {MaxBatch: math.MaxInt, Accumulation: true, MaxLocal: 8}, {MaxBatch: 1 << 62, MinLocal: 3, MaxLocal: 3, Accumulation: true},
				{MaxBatch: 1 << 62}, {MaxLocal: math.MaxInt}, {MaxBatch: math.MaxInt, MaxLocal: math.MaxInt, Accumulation: true},
			} {
				for _, replicas := range []int{1, 3} {
					g := Goodput{Model: model, Noise: noise, InitialBatch: 64}
					c, err := g.Best(1, replicas, l)
					if err != nil {
						if !errors.Is(err, ErrNoChoice) {
							t.Error(err)
						}
						continue
					}
					if batch := float64(replicas) * float64(c.LocalBatch) * float64(c.Accumulation+1); c.LocalBatch < 1 || c.Accumulation < 0 || batch < 64 || l.MaxBatch > 0 && batch > float64(l.MaxBatch) {
						t.Errorf("%T %+v %+v of %d replicas: got %+v", model, noise, l, replicas, c)
					}
				}
			}
		}
	}
}
