package fanova

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Shares must be those of functions whose variance is known in closed form, for independent inputs
// that are uniform on [0, 1].
func TestSharesAreThoseOfKnownFunctions(t *testing.T) {
	choice := func(u float64, n int) float64 { return math.Floor(u * float64(n)) }
	for _, tc := range []struct {
		name   string
		inputs []Input
		f      func(x []float64) float64
		want   []float64
	}{
		// Var(a·x) = a²/12.
		{"sum", []Input{{}, {}, {}}, func(x []float64) float64 { return 3*x[0] + x[1] }, []float64{0.9, 0.1, 0}},
		// Sobol's g-function: the share of input i is 1/(3·(1+a_i)²) over Π(1 +
		// 1/(3·(1+a_i)²)) − 1; here a = 0, 1.
		{"g", []Input{{}, {}}, func(x []float64) float64 {
			return math.Abs(4*x[0]-2) * (math.Abs(4*x[1]-2) + 1) / 2
		}, []float64{(1.0 / 3) / (4.0/3*13/12 - 1), (1.0 / 12) / (4.0/3*13/12 - 1)}},
		// (2x−1)(2y−1) is due to both together.
		{"product", []Input{{}, {}}, func(x []float64) float64 { return (2*x[0] - 1) * (2*x[1] - 1) }, []float64{0, 0}},
		// A choice of three values 0, 1, 0 has variance 2/9, and 2·x has 1/3.
		{"choice", []Input{{Count: 3}, {}}, func(x []float64) float64 { return map[bool]float64{true: 1}[choice(x[0], 3) == 1] + 2*x[1] }, []float64{2.0 / 5, 3.0 / 5}},
	} {
		rng := rand.New(rand.NewPCG(4, 4))
		var x [][]float64
		var y []float64
		for range 400 {
			p := make([]float64, len(tc.inputs))
			for j, in := range tc.inputs {
				if p[j] = rng.Float64(); in.Count > 0 {
					p[j] = (choice(p[j], in.Count) + 0.5) / float64(in.Count)
				}
			}
			x, y = append(x, p), append(y, tc.f(p))
		}
		got := Shares(tc.inputs, x, y, 1)
		for j := range got {
			if math.Abs(got[j]-tc.want[j]) > 0.06 {
				t.Errorf("%s: shares %.3f, want %.3f", tc.name, got, tc.want)
				break
			}
		}
		if tc.name != "sum" {
			continue
		}
		if again := Shares(tc.inputs, x, y, 1); !slices.Equal(got, again) {
			t.Errorf("%s: shares %v and then %v of the same observations", tc.name, got, again)
		}
		if other := Shares(tc.inputs, x, y, 2); slices.Equal(got, other) {
			t.Errorf("%s: another seed gives the same forest", tc.name)
		}
	}
}

func TestSharesOfAConstantAreZero(t *testing.T) {
	if got := Shares([]Input{{}, {Count: 2}}, [][]float64{{0.1, 0.25}, {0.5, 0.75}, {0.9, 0.25}, {0.3, 0.75}}, []float64{5, 5, 5, 5}, 1); !slices.Equal(got, []float64{0, 0}) {
		t.Errorf("got %v, want zeros", got)
	}
}

// Values of a choice are separated between their intervals, not within one.
func TestACutIsBetweenTheIntervalsOfValues(t *testing.T) {
	g := grower{inputs: []Input{{Count: 4}, {}}}
	for _, tc := range []struct {
		input          int
		from, to, want float64
	}{{0, 0.125, 0.375, 0.25}, {0, 0.125, 0.625, 0.5}, {1, 0.125, 0.625, 0.375}} {
		if got := g.cut(tc.input, tc.from, tc.to); got != tc.want {
			t.Errorf("input %d from %v to %v is cut at %v, want %v", tc.input, tc.from, tc.to, got, tc.want)
		}
	}
}
