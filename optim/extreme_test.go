package optim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/optim"
)

// Magnitudes at which float32 runs out: of squares, of sums, of the range itself, and below its
// smallest normal number.
var extremes = []float64{2e19, 1e30, 3e38, 1e-20, 1e-30, 1e-40, 1.4e-45}

// unclipped are the configs whose rules see gradients as large as they come.
func unclipped() []optim.Config {
	var list []optim.Config
	for _, c := range configs() {
		if c.ClipGradient == 0 && c.ClipNorm == 0 {
			list = append(list, c)
		}
	}
	return list
}

// Squares of gradients do not fit float32 beyond 1.8e19. The rules follow their formulas there,
// too, on whole vectors and on what is left of them.
func TestExtremeGradientsFollowTheFormula(t *testing.T) {
	const n, steps = 37, 4
	for _, cfg := range unclipped() {
		for _, size := range extremes {
			t.Run(fmt.Sprintf("%s/%g", label(cfg), size), func(t *testing.T) {
				o := newOptimizer(t, cfg)
				c := o.Config()
				r := rand.New(rand.NewPCG(3, 4))
				value, state := randomValues(r, n), o.NewState(n)
				want := widen(value)
				memory := map[string][]float64{"m": make([]float64, n), "v": make([]float64, n), "a": make([]float64, n)}
				for step := range steps {
					grad := make([]float32, n)
					for i := range grad {
						grad[i] = float32(size * (1 - 2*float64((i+step/2)%2)))
					}
					models[c.Name](c, step+1, c.LearningRateAt(uint64(step)), want, widen(grad), memory)
					if err := o.At(uint64(step), 1, one).Update(value, grad, state); err != nil {
						t.Fatal(err)
					}
					for i, w := range want {
						if math.Abs(w) > math.MaxFloat32 {
							return // the formula itself leaves float32's range
						}
						tolerance := 1e-4 * (1 + math.Abs(w))
						if size < 1e-44 && c.Name == "lamb" {
							tolerance = 1 // its mean is less than the smallest float32, so the ratio has nothing to enlarge
						}
						if diff := math.Abs(float64(value[i]) - w); !(diff <= tolerance) {
							t.Fatalf("step %d element %d: got %v, want %v", step, i, value[i], w)
						}
					}
				}
			})
		}
	}
}

// Spikes among usual gradients leave values and state finite: an infinite sum of squares would
// freeze its weight for ever.
func TestASpikeLeavesValuesAndStateFinite(t *testing.T) {
	const n, spikes, steps = 37, 600, 610
	for _, cfg := range unclipped() {
		for _, size := range extremes[:3] {
			for _, often := range []int{1, spikes} {
				if size*float64(often) > 1e37 && slices.Contains([]string{"sgd", "nag", "test"}, cfg.Name) {
					continue // steps as large as the gradients: their sum leaves float32's range, as the formula's does
				}
				t.Run(fmt.Sprintf("%s/%g/spikes=%d", label(cfg), size, often), func(t *testing.T) {
					o := newOptimizer(t, cfg)
					r := rand.New(rand.NewPCG(5, 6))
					value, state := randomValues(r, n), o.NewState(n)
					for step := range steps {
						grad := randomValues(r, n)
						if step >= 3 && step < 3+often {
							for i := range grad {
								if i%3 == 0 {
									grad[i] = float32(math.Copysign(size, float64(grad[i])))
								}
							}
						}
						if err := o.At(uint64(step), 1, one).Update(value, grad, state); err != nil {
							t.Fatal(err)
						}
						for i, w := range value {
							if w-w != 0 {
								t.Fatalf("step %d: value[%d] is %v", step, i, w)
							}
						}
						if state == nil {
							continue
						}
						for _, slot := range state.Slots {
							for i, x := range slot.Values {
								if x-x != 0 {
									t.Fatalf("step %d: %s[%d] is %v", step, slot.Name, i, x)
								}
							}
						}
					}
				})
			}
		}
	}
}

// What is not finite must show in the weight: no rule may turn it into an ordinary step.
func TestWhatIsNotFiniteStaysVisible(t *testing.T) {
	const n = 21
	for _, cfg := range unclipped() {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			o := newOptimizer(t, cfg)
			r := rand.New(rand.NewPCG(7, 8))
			value, grad, state := randomValues(r, n), randomValues(r, n), o.NewState(n)
			grad[2], grad[n-1] = float32(bad), float32(bad)
			if err := o.At(0, 1, one).Update(value, grad, state); err != nil {
				t.Fatal(err)
			}
			for _, i := range []int{2, n - 1} {
				if value[i]-value[i] == 0 {
					t.Errorf("%s: gradient %v: value[%d] is %v, want it not finite", label(cfg), bad, i, value[i])
				}
			}
		}
	}
}
