package f32

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// formulas are the functions and their derivatives in float64, each by another formula than the
// kernels', where there is one.
var formulas = []struct {
	name           string
	of             Function
	at, derivative func(x float64) float64

	// keepsResult says that the derivative is one of the result.
	keepsResult bool
}{
	GELU:      {"GELU", GELU, gelu, geluDerivative, false},
	GELUTanh:  {"GELUTanh", GELUTanh, geluTanh, geluTanhDerivative, false},
	SiLU:      {"SiLU", SiLU, func(x float64) float64 { return x / (1 + math.Exp(-x)) }, siluDerivative, false},
	Sigmoid:   {"Sigmoid", Sigmoid, sigma, func(y float64) float64 { return y * (1 - y) }, true},
	Tanh:      {"Tanh", Tanh, math.Tanh, func(y float64) float64 { return 1 - y*y }, true},
	LeakyReLU: {"LeakyReLU", LeakyReLU, func(x float64) float64 { return math.Max(x, x*testSlope) }, leakyDerivative, true},
	ReLU6:     {"ReLU6", ReLU6, func(x float64) float64 { return math.Min(math.Max(x, 0), 6) }, relu6Derivative, true},
	Softplus:  {"Softplus", Softplus, softplus, sigma, false},
}

const testSlope = 0.25

func sigma(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func gelu(x float64) float64 {
	if x < -30 {
		return 0
	}
	return x * math.Erfc(-x/math.Sqrt2) / 2
}

func geluDerivative(x float64) float64 {
	x = math.Min(math.Max(x, -30), 30)
	return math.Erfc(-x/math.Sqrt2)/2 + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
}

func geluInner(x float64) float64 { return math.Sqrt(8/math.Pi) * (x + 0.044715*x*x*x) }

func geluTanh(x float64) float64 {
	if x < -30 {
		return 0
	}
	return x * sigma(geluInner(x))
}

func geluTanhDerivative(x float64) float64 {
	x = math.Min(math.Max(x, -30), 30)
	s := sigma(geluInner(x))
	return s + x*s*sigma(-geluInner(x))*math.Sqrt(8/math.Pi)*(1+3*0.044715*x*x)
}

func siluDerivative(x float64) float64 {
	x = math.Min(math.Max(x, -300), 300)
	return sigma(x) + x*sigma(x)*sigma(-x)
}

func softplus(x float64) float64 {
	if x > 0 {
		return x + math.Log1p(math.Exp(-x))
	}
	return math.Log1p(math.Exp(x))
}

func leakyDerivative(y float64) float64 {
	if y > 0 {
		return 1
	}
	return testSlope
}

func relu6Derivative(y float64) float64 {
	if y > 0 && y < 6 {
		return 1
	}
	return 0
}

// units is how far got is from want in units of the last place of max(|want|, least).
func units(got float32, want, least float64) float64 {
	rounded := float32(want)
	if got == rounded {
		return 0
	}
	if math.IsInf(float64(rounded), 0) || math.IsInf(float64(got), 0) {
		// The largest number is a unit from infinity.
		want = math.Copysign(math.Min(math.Abs(want), 0x1p128), want)
		return math.Abs(math.Max(math.Min(float64(got), 0x1p128), -0x1p128)-want) / 0x1p104
	}
	_, e := math.Frexp(math.Max(math.Max(math.Abs(want), least), 0x1p-126))
	return math.Abs(float64(got)-want) / math.Ldexp(1, e-24)
}

// sweep is numbers from the whole of float32's range, both signs, and those near what matters.
func sweep() []float32 {
	var x []float32
	for bits := uint32(0); bits < 0x7f800000; bits += 9973 {
		v := math.Float32frombits(bits)
		x = append(x, v, -v)
	}
	for i := range 40000 {
		x = append(x, float32(i-20000)/1000, float32(i-20000)/180)
	}
	return append(x, 0, float32(math.Copysign(0, -1)), math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32)
}

// The bounds are in units of the last place. Derivatives lose digits where they cross 0: below
// leastDerivative their error is counted in units of that. So does GELU by tanh, where the rounding
// of its argument grows with it, and where others meet the end of float32's range.
func TestFunctionsAreRightToAFewUnitsOfTheLastPlace(t *testing.T) {
	const leastDerivative = 0.25
	onPaths(t, func(t *testing.T) {
		x := sweep()
		y, ones := make([]float32, len(x)), make([]float32, len(x))
		for i := range ones {
			ones[i] = 1
		}
		report := func(name string, bound float64, at func(i int) (want, least float64)) {
			worst, where := 0.0, 0
			for i := range x {
				want, least := at(i)
				if u := units(y[i], want, least); !(u <= worst) {
					worst, where = u, i
				}
			}
			want, _ := at(where)
			t.Logf("%s: %.2f units at %g", name, worst, x[where])
			if !(worst <= bound) {
				t.Errorf("%s of %g is %g, want %g: %.2f units of the last place apart, want at most %g", name, x[where], y[where], want, worst, bound)
			}
		}
		for _, f := range formulas {
			Activate(f.of, y, x, testSlope)
			least := map[Function]float64{GELUTanh: 0.1, GELU: 0x1p-110, SiLU: 0x1p-110}[f.of]
			bound := map[Function]float64{GELU: 4, GELUTanh: 5}[f.of]
			report(f.name, max(bound, 3), func(i int) (float64, float64) { return f.at(float64(x[i])), least })
			ActivateGrad(f.of, y, ones, x, testSlope)
			if f.of == Sigmoid || f.of == Tanh {
				continue // of results between −1 and 1: below
			}
			report(f.name+"'s derivative", 4, func(i int) (float64, float64) { return f.derivative(float64(x[i])), leastDerivative })
		}
		for i := range x {
			x[i] = float32(i)/float32(len(x))*2 - 1
		}
		for _, f := range []Function{Sigmoid, Tanh} {
			ActivateGrad(f, y, ones, x, 0)
			report(formulas[f].name+"'s derivative", 2, func(i int) (float64, float64) { return formulas[f].derivative(float64(x[i])), leastDerivative })
		}
	})
}

func TestExponentialsAreRightToAFewUnitsOfTheLastPlace(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		x := sweep()
		y := make([]float32, len(x))
		ScaledExp(y, x, 0, 1, 0)
		worst, where := 0.0, 0
		for i, v := range x {
			if u := units(y[i], math.Exp(float64(v)), 0); !(u <= worst) {
				worst, where = u, i
			}
		}
		t.Logf("%.2f units at %g", worst, x[where])
		if !(worst <= 2) {
			t.Errorf("exp of %g is %g, want %g: %.2f units of the last place apart, want at most 2", x[where], y[where], math.Exp(float64(x[where])), worst)
		}
	})
}

func TestFunctionsHaveTheirLimitsAndKeepNaNs(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	onPaths(t, func(t *testing.T) {
		for _, f := range formulas {
			x := []float32{-inf, inf, nan}
			want := [][]float32{
				GELU: {0, inf, nan}, GELUTanh: {0, inf, nan}, SiLU: {0, inf, nan}, Sigmoid: {0, 1, nan}, Tanh: {-1, 1, nan},
				LeakyReLU: {-inf, inf, nan}, ReLU6: {0, 6, nan}, Softplus: {0, inf, nan},
			}[f.of]
			y, ones := make([]float32, 3), []float32{1, 1, 1}
			Activate(f.of, y, x, testSlope)
			if !alike(y, want) {
				t.Errorf("%s of %v is %v, want %v", f.name, x, y, want)
			}
			kept := x
			if f.keepsResult {
				kept = want
			}
			slopes := []float32{0, 1, nan}
			switch f.of {
			case LeakyReLU:
				slopes[0] = testSlope
			case Sigmoid, Tanh, ReLU6:
				slopes[1] = 0
			}
			if ActivateGrad(f.of, y, ones, kept, testSlope); !alike(y, slopes) {
				t.Errorf("%s's derivative at %v is %v, want %v", f.name, x, y, slopes)
			}
			if ActivateGrad(f.of, y, []float32{nan, nan, nan}, []float32{-1, 0, 9}, testSlope); !alike(y, []float32{nan, nan, nan}) {
				t.Errorf("%s's gradient of NaNs is %v, want NaNs", f.name, y)
			}
		}
		x := []float32{-inf, inf, nan, -200, 0}
		y := make([]float32, len(x))
		if ScaledExp(y, x, 0, 1, 0); !alike(y, []float32{0, inf, nan, 0, 1}) {
			t.Errorf("exp of %v is %v", x, y)
		}
	})
}

func alike(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return x == y || x != x && y != y })
}

// What a number becomes does not depend on where it stands, and nothing else is written.
func TestFunctionsOfAnyLength(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		all := normal(r, 64)
		ups, dys := normal(r, 64), normal(r, 64)
		for _, n := range []int{0, 1, 3, 4, 5, 15, 16, 17, 40} {
			for _, from := range []int{0, 1, 7} {
				x, up, dy := all[from:from+n], ups[from:from+n], dys[from:from+n]
				check := func(name string, run func(dst, x, up, dy []float32)) {
					t.Helper()
					got, memory := guarded(r, n)
					run(got, x, up, dy)
					intact(t, name, memory, n)
					whole := make([]float32, len(all))
					run(whole, all, ups, dys)
					if !slices.Equal(got, whole[from:from+n]) {
						t.Fatalf("%s of %d numbers from %d on: got %v, want %v as of all", name, n, from, got, whole[from:from+n])
					}
					for i, in := range [][]float32{x, up, dy} {
						args := [][]float32{slices.Clone(x), slices.Clone(up), slices.Clone(dy)}
						copy(args[i], in)
						if run(args[i], args[0], args[1], args[2]); !slices.Equal(args[i], got) {
							t.Fatalf("%s of %d numbers over argument %d: got %v, want %v", name, n, i, args[i], got)
						}
					}
				}
				for _, f := range formulas {
					check(f.name, func(dst, x, _, _ []float32) { Activate(f.of, dst, x, testSlope) })
					check(f.name+"'s gradient", func(dst, x, _, dy []float32) { ActivateGrad(f.of, dst, dy, x, testSlope) })
				}
				check("SwiGLU", func(dst, x, up, _ []float32) { SwiGLU(dst, x, up) })
				check("SwiGLU's gradient of the gate", func(dst, x, up, dy []float32) { SwiGLUGrad(dst, make([]float32, len(x)), x, up, dy) })
				check("SwiGLU's gradient", func(dst, x, up, dy []float32) { SwiGLUGrad(make([]float32, len(x)), dst, x, up, dy) })
				check("ScaledExp", func(dst, x, _, _ []float32) { ScaledExp(dst, x, 0.5, 2, -1) })
				check("ExpSum", func(dst, x, _, _ []float32) { ExpSum(dst, x, 0.5) })
			}
		}
	})
}

// Arrays of bfloat16 give what float32 gives, rounded.
func TestFunctionsOfBFloat16(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		for _, n := range []int{0, 1, 17, 1024, 2500} {
			x, dy, y := make([]uint16, n), make([]uint16, n), make([]uint16, n)
			wideX, wideDY, wideY := normal(r, n), normal(r, n), make([]float32, n)
			ToBFloat16(x, wideX)
			ToBFloat16(dy, wideDY)
			FromBFloat16(wideX, x)
			FromBFloat16(wideDY, dy)
			want := make([]uint16, n)
			for _, f := range formulas {
				Activate(f.of, wideY, wideX, testSlope)
				ToBFloat16(want, wideY)
				if ActivateBFloat16(f.of, y, x, testSlope); !slices.Equal(y, want) {
					t.Errorf("%s of %d numbers as bfloat16 is not that of float32, rounded", f.name, n)
				}
				ActivateGrad(f.of, wideY, wideDY, wideX, testSlope)
				ToBFloat16(want, wideY)
				if ActivateGradBFloat16(f.of, y, dy, x, testSlope); !slices.Equal(y, want) {
					t.Errorf("%s's gradient of %d numbers as bfloat16 is not that of float32, rounded", f.name, n)
				}
			}
			if n == 0 {
				continue
			}
			if allocations := testing.AllocsPerRun(5, func() {
				ActivateBFloat16(GELU, y, x, 0)
				ActivateGradBFloat16(GELU, y, dy, x, 0)
				Activate(GELU, wideY, wideX, 0)
				SwiGLUGrad(wideY, wideX, wideX, wideDY, wideDY)
				Softmax(wideY, wideX)
			}); allocations != 0 {
				t.Errorf("%d numbers: %g allocations, want none", n, allocations)
			}
		}
	})
}

func TestSwiGLUIsItsFormula(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		gate, up, dz := normal(r, 100), normal(r, 100), normal(r, 100)
		z, dgate, dup := make([]float32, 100), make([]float32, 100), make([]float32, 100)
		SwiGLU(z, gate, up)
		SwiGLUGrad(dgate, dup, gate, up, dz)
		for i := range gate {
			g, u, d := float64(gate[i]), float64(up[i]), float64(dz[i])
			for name, pair := range map[string][2]float64{
				"z": {float64(z[i]), formulas[SiLU].at(g) * u}, "dgate": {float64(dgate[i]), d * u * siluDerivative(g)}, "dup": {float64(dup[i]), d * formulas[SiLU].at(g)},
			} {
				if !near(pair[0], pair[1], 1e-6) {
					t.Fatalf("%s of gate %g, up %g, dz %g is %g, want %g", name, g, u, d, pair[0], pair[1])
				}
			}
		}
	})
}

func TestSoftmaxOfRows(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		for _, n := range []int{1, 2, 13, 64, 1000, 50257} {
			x := normal(r, n)
			for i := range x {
				x[i] = 5*x[i] + 300
			}
			top, sum := math.Inf(-1), 0.0
			for _, v := range x {
				top = math.Max(top, float64(v))
			}
			for _, v := range x {
				sum += math.Exp(float64(v) - top)
			}
			if got, want := LogSumExp(x), top+math.Log(sum); !(math.Abs(got-want) <= 2e-7*(1+math.Abs(math.Log(sum)))) {
				t.Errorf("LogSumExp of %d numbers is %.9g, want %.9g", n, got, want)
			}
			y := slices.Clone(x)
			Softmax(y, y)
			total := 0.0
			for i, v := range x {
				total += float64(y[i])
				if want := math.Exp(float64(v)-top) / sum; !(math.Abs(float64(y[i])-want) <= 4e-7*want) {
					t.Fatalf("softmax of %d numbers: number %d is %g, want %g", n, i, y[i], want)
				}
			}
			if !near(total, 1, 1e-6) {
				t.Errorf("softmax of %d numbers has the sum %g", n, total)
			}
		}
		inf, nan := float32(math.Inf(1)), float32(math.NaN())
		for _, x := range [][]float32{{1, nan}, {nan, 1}, {1, inf}, {-inf, -inf}, slices.Repeat([]float32{nan, 3}, 20)} {
			y := make([]float32, len(x))
			Softmax(y, x)
			if lse := LogSumExp(x); lse == lse || slices.ContainsFunc(y, func(v float32) bool { return v == v && v != 0 }) {
				t.Errorf("softmax of %v is %v, LogSumExp %g, want NaN", x, y, lse)
			}
		}
		if y := make([]float32, 2); true {
			if Softmax(y, []float32{-inf, 0}); y[0] != 0 || y[1] != 1 {
				t.Errorf("softmax of −∞ and 0 is %v", y)
			}
		}
	})
}

func BenchmarkFunctions(b *testing.B) {
	const n = 4096
	x, dy, y := make([]float32, n), make([]float32, n), make([]float32, n)
	r := rand.New(rand.NewPCG(1, 2))
	copy(x, normal(r, n))
	copy(dy, normal(r, n))
	run := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/number")
		})
	}
	old := kernels
	defer func() { kernels = old }()
	for _, p := range Available() {
		kernels = kernelsFor(p)
		for _, f := range formulas {
			run(fmt.Sprintf("path=%v/f=%s", p, f.name), func() { Activate(f.of, y, x, testSlope) })
			run(fmt.Sprintf("path=%v/f=%sGrad", p, f.name), func() { ActivateGrad(f.of, y, dy, x, testSlope) })
		}
		run(fmt.Sprintf("path=%v/f=SwiGLU", p), func() { SwiGLU(y, x, dy) })
		run(fmt.Sprintf("path=%v/f=SwiGLUGrad", p), func() { SwiGLUGrad(y, y, x, dy, dy) })
		run(fmt.Sprintf("path=%v/f=ExpSum", p), func() { ExpSum(y, x, 1) })
		run(fmt.Sprintf("path=%v/f=Softmax", p), func() { Softmax(y, x) })
	}
}
