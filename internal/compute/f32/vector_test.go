package f32

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// onPaths runs f on every path that this machine has.
func onPaths(t *testing.T, f func(t *testing.T)) {
	for _, p := range Available() {
		t.Run(p.String(), func(t *testing.T) {
			old := kernels
			defer func() { kernels = old }()
			kernels = kernelsFor(p)
			f(t)
		})
	}
}

var lengths = []int{0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 128, 200, 1000, 1023}

// guarded is n random values followed by values that must not change; intact checks them.
func guarded(r *rand.Rand, n int) (values, all []float32) {
	all = normal(r, n+40)
	for i := n; i < len(all); i++ {
		all[i] = 12345
	}
	return all[:n:n], all
}

func intact(t *testing.T, what string, all []float32, n int) {
	t.Helper()
	for i := n; i < len(all); i++ {
		if all[i] != 12345 {
			t.Fatalf("%s of %d values wrote %g to index %d", what, n, all[i], i)
		}
	}
}

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance*(1+math.Abs(b)) }

func TestElementwiseLoopsAreTheirFormulas(t *testing.T) {
	ops := []struct {
		name    string
		run     func(dst, a, b []float32)
		formula func(dst, a, b float64) float64
	}{
		{"Add", func(dst, a, b []float32) { Add(dst, a, b) }, func(_, a, b float64) float64 { return a + b }},
		{"AddTo", func(dst, a, _ []float32) { AddTo(dst, a) }, func(d, a, _ float64) float64 { return d + a }},
		{"Mul", func(dst, a, b []float32) { Mul(dst, a, b) }, func(_, a, b float64) float64 { return a * b }},
		{"Axpy", func(dst, a, _ []float32) { Axpy(dst, -1.5, a) }, func(d, a, _ float64) float64 { return d - 1.5*a }},
		{"Axpby", func(dst, a, _ []float32) { Axpby(dst, -1.5, a, 0.25) }, func(d, a, _ float64) float64 { return 0.25*d - 1.5*a }},
		{"Scale", func(dst, a, _ []float32) { Scale(dst, 3, a) }, func(_, a, _ float64) float64 { return 3 * a }},
		{"ReLU", func(dst, a, _ []float32) { ReLU(dst, a) }, func(_, a, _ float64) float64 { return max(a, 0) }},
		{"ReLUGrad", func(dst, a, b []float32) { ReLUGrad(dst, a, b) }, func(_, a, b float64) float64 {
			if b > 0 {
				return a
			}
			return 0
		}},
	}
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 1))
		for _, op := range ops {
			for _, n := range lengths {
				dst, all := guarded(r, n)
				a, b := normal(r, n), normal(r, n)
				old := append([]float32(nil), dst...)
				op.run(dst, a, b)
				for i := range dst {
					if want := op.formula(float64(old[i]), float64(a[i]), float64(b[i])); !near(float64(dst[i]), want, 3e-7) {
						t.Fatalf("%s of %d values: [%d] = %g, want %g", op.name, n, i, dst[i], want)
					}
				}
				intact(t, op.name, all, n)
			}
		}
	})
}

func TestReductionsAreTheirFormulas(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, n := range lengths {
			x, y := normal(r, n), normal(r, n)
			var sum, dot, abs float64
			m := math.Inf(-1)
			for i := range x {
				sum += float64(x[i])
				dot += float64(x[i]) * float64(y[i])
				abs += math.Abs(float64(x[i])) + math.Abs(float64(x[i])*float64(y[i]))
				m = max(m, float64(x[i]))
			}
			if got := float64(Sum(x)); math.Abs(got-sum) > 1e-6*abs {
				t.Errorf("Sum of %d values = %g, want %g", n, got, sum)
			}
			if got := float64(Dot(x, y)); math.Abs(got-dot) > 1e-6*abs {
				t.Errorf("Dot of %d values = %g, want %g", n, got, dot)
			}
			if n > 0 {
				if got := float64(Max(x)); got != m {
					t.Errorf("Max of %d values = %g, want %g", n, got, m)
				}
			}
		}
	})
}

// What is not a number, infinite or a negative zero is treated alike on all paths, in vectors and
// in what is left over.
func TestReLUOfSpecialValues(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	in := []float32{nan, inf, -inf, float32(math.Copysign(0, -1)), 1e-40, -1e-40, 5}
	want := []float32{nan, inf, 0, 0, 1e-40, 0, 5}
	onPaths(t, func(t *testing.T) {
		for _, n := range []int{7, 70} {
			x, y, d := make([]float32, n), make([]float32, n), make([]float32, n)
			for i := range x {
				x[i] = in[i%7]
			}
			ReLU(y, x)
			ReLUGrad(d, x, x)
			for i := range y {
				w := want[i%7]
				if y[i] != w && (y[i] == y[i] || w == w) || d[i] != w && (d[i] == d[i] || w == w) {
					t.Errorf("x = %g: ReLU %g, ReLUGrad %g, want %g both", x[i], y[i], d[i], w)
				}
			}
			ScaleShift(y, x, []float32{1, 1, 1, 1, 1, 1, 1}, make([]float32, 7), true)
			if y[0] == y[0] {
				t.Errorf("ScaleShift with ReLU of a NaN is %g, want NaN", y[0])
			}
		}
		one, zero := make([]float32, 64), make([]float32, 64)
		for i := range one {
			one[i] = 1
		}
		x := append([]float32{nan, -1}, one[:62]...)
		ScaleShift(x, x, one, zero, true)
		if x[0] == x[0] || x[1] != 0 || x[2] != 1 {
			t.Errorf("ScaleShift with ReLU of NaN, -1, 1: %g", x[:3])
		}
	})
}

func TestMaxWhichKeepsTheFirstOfTheLargest(t *testing.T) {
	nan := float32(math.NaN())
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 3))
		for _, n := range lengths {
			out, all := guarded(r, n)
			chosen := make([]uint8, n)
			want, wantChosen := append([]float32(nil), out...), make([]uint8, n)
			for which := uint8(1); which < 10; which++ {
				x := normal(r, n)
				for i := range x {
					switch r.IntN(20) {
					case 0:
						x[i] = nan
					case 1:
						x[i] = want[i]
					}
					if x[i] != x[i] || x[i] > want[i] {
						want[i], wantChosen[i] = x[i], which
					}
				}
				MaxWhich(out, chosen, x, which)
			}
			for i := range out {
				if out[i] != want[i] && (out[i] == out[i] || want[i] == want[i]) || chosen[i] != wantChosen[i] {
					t.Fatalf("%d values: [%d] = %g from %d, want %g from %d", n, i, out[i], chosen[i], want[i], wantChosen[i])
				}
			}
			intact(t, "MaxWhich", all, n)
		}
	})
}

func TestLengthsThatDifferPanic(t *testing.T) {
	a, b := make([]float32, 3), make([]float32, 4)
	for name, f := range map[string]func(){
		"Add": func() { Add(a, a, b) }, "AddTo": func() { AddTo(a, b) }, "Dot": func() { Dot(b, a) }, "Max": func() { Max(nil) },
		"ToFloat16":   func() { ToFloat16(make([]uint16, 3), b) },
		"ChannelSums": func() { ChannelSums(make([]float64, 3), make([]float64, 3), b) },
		"ScaleShift":  func() { ScaleShift(b, b, a, a, false) },
		"Encode2Bit":  func() { Encode2Bit(make([]byte, 3), a, a, 1) },
		"threshold":   func() { Encode2Bit(make([]byte, 4), a, a, 0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestFromEnvNamesWhatItRefuses(t *testing.T) {
	best := Available()[len(Available())-1]
	for _, c := range []struct {
		value string
		want  Path
		bad   bool
	}{{"", best, false}, {"portable", Portable, false}, {"PORTABLE", Portable, false}, {"sse9", best, true},
		{"portable,float32", Portable, false}, {",Float32", best, false}, {"portable,pairs", best, true}, {"portable,halves", best, true}} {
		t.Setenv("PARAGON_CPU", c.value)
		if got, err := FromEnv(); got != c.want || (err != nil) != c.bad {
			t.Errorf("PARAGON_CPU=%q: path %v, error %v; want %v, error %t", c.value, got, err, c.want, c.bad)
		}
	}
}

// go test -run xxx -bench 'Vector|Channel|Convert|Compress' ./internal/compute/f32/
func BenchmarkVector(b *testing.B) {
	for _, n := range []int{4 << 10, 11 << 20} {
		x, y := make([]float32, n), make([]float32, n)
		for _, op := range []struct {
			name  string
			bytes int
			f     func()
		}{
			{"AddTo", 12, func() { AddTo(x, y) }},
			{"Axpy", 12, func() { Axpy(x, 1e-3, y) }},
			{"Sum", 4, func() { Sum(x) }},
			{"ReLU", 8, func() { ReLU(x, y) }},
			{"ReLUGrad", 12, func() { ReLUGrad(x, y, y) }},
		} {
			b.Run(fmt.Sprintf("op=%s/floats=%d", op.name, n), func(b *testing.B) {
				b.SetBytes(int64(op.bytes) * int64(n))
				for b.Loop() {
					op.f()
				}
			})
		}
	}
}
