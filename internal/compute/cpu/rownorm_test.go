package cpu

import (
	"math"
	"math/rand/v2"
	"testing"
)

// momentRows are rows whose mean is large against their deviation, or whose first numbers say
// nothing of the rest.
var momentRows = []struct {
	name string
	x    func(r *rand.Rand, i int) float64
}{
	{"normal", func(r *rand.Rand, _ int) float64 { return r.NormFloat64() }},
	{"mean four thousand times the deviation", func(r *rand.Rand, _ int) float64 { return 4000 + r.NormFloat64() }},
	{"the first numbers are outliers", func(r *rand.Rand, i int) float64 {
		if i < 6 {
			return -3e4
		}
		return 1e4 + r.NormFloat64()
	}},
	{"constant", func(*rand.Rand, int) float64 { return 3 }},
}

// exactMoments are the mean and the scale of numbers, in float64.
func exactMoments(x []float32, eps float64) (mean, rstd float64) {
	for _, v := range x {
		mean += float64(v) / float64(len(x))
	}
	variance := 0.0
	for _, v := range x {
		variance += (float64(v) - mean) * (float64(v) - mean) / float64(len(x))
	}
	return mean, 1 / math.Sqrt(variance+eps)
}

func TestMomentsOfARow(t *testing.T) {
	for _, test := range momentRows {
		for _, c := range []int{1, 7, 64, 389, 4096} {
			r := rand.New(rand.NewPCG(1, 2))
			x := make([]float32, c)
			for i := range x {
				x[i] = float32(test.x(r, i))
			}
			mean, rstd := rowMoments(x, 1e-5, false)
			wantMean, wantScale := exactMoments(x, 1e-5)
			if math.Abs(float64(mean)-wantMean) > 6e-8*math.Abs(wantMean)+1e-6 || math.Abs(float64(rstd)-wantScale) > 5e-6*wantScale {
				t.Errorf("%s: %d numbers: mean %g and scale %g, want %g and %g", test.name, c, mean, rstd, wantMean, wantScale)
			}
			if mean, _ := rowMoments(x, 1e-5, true); mean != 0 {
				t.Errorf("%s: the mean of a root mean square is %g, want 0", test.name, mean)
			}
		}
	}
}

func TestMomentsOfGroups(t *testing.T) {
	const pixels, channels, groups = 50, 12, 3
	for _, test := range momentRows {
		r := rand.New(rand.NewPCG(1, 2))
		s := groupSize{images: 1, pixels: pixels, c: channels, groups: groups}
		x := make([]float32, pixels*channels)
		for i := range x {
			x[i] = float32(test.x(r, i))
		}
		w, b := make([]float32, channels), make([]float32, channels)
		for c := range w {
			w[c] = 1
		}
		m := groupMoments{s, x, make([]float64, channels), make([]float64, channels), make([]float32, channels), make([]float32, channels)}
		means, rstds := make([]float32, groups), make([]float32, groups)
		m.line(w, b, 1e-5, means, rstds)
		for k := range groups {
			var group []float32
			lo, hi := s.channelsOf(k)
			for p := range pixels {
				group = append(group, x[p*channels+lo:p*channels+hi]...)
			}
			wantMean, wantScale := exactMoments(group, 1e-5)
			if math.Abs(float64(means[k])-wantMean) > 6e-8*math.Abs(wantMean)+1e-6 || math.Abs(float64(rstds[k])-wantScale) > 5e-6*wantScale {
				t.Errorf("%s: group %d: mean %g and scale %g, want %g and %g", test.name, k, means[k], rstds[k], wantMean, wantScale)
			}
		}
	}
}

// Sums over parts do not depend on how their columns are cut.
func TestPartsAreAddedInOrder(t *testing.T) {
	const c, n = 300, 5
	parts := make([]float32, 2*c*n)
	for i := range parts {
		parts[i] = float32(i%17) * 0.1
	}
	whole, cut := make([]float32, c), make([]float32, c)
	addParts(whole, parts[c:], 0, c, 2*c, n)
	for lo := 0; lo < c; lo += 7 {
		addParts(cut, parts[c:], lo, min(lo+7, c), 2*c, n)
	}
	for j := range c {
		want := 0.0
		for k := range n {
			want += float64(parts[(2*k+1)*c+j])
		}
		if whole[j] != float32(want) || cut[j] != whole[j] {
			t.Fatalf("column %d: %g and, cut, %g, want %g", j, whole[j], cut[j], float32(want))
		}
	}
}
