package f32

import (
	"math"
	"math/rand/v2"
	"testing"
)

// An updateRule runs a rule on value, grad and the slots that it has.
type updateRule struct {
	name     string
	slots    int
	run      func(u *Update, value, grad []float32, slots [][]float32)
	portable func(u *Update, value, grad []float32, slots [][]float32)
}

var updateRules = []updateRule{
	{"Ascend", 0,
		func(u *Update, w, g []float32, _ [][]float32) { u.Ascend(w, g) },
		func(u *Update, w, g []float32, _ [][]float32) { u.ascendPortable(w, g) }},
	{"SGD", 0,
		func(u *Update, w, g []float32, _ [][]float32) { u.SGD(w, g) },
		func(u *Update, w, g []float32, _ [][]float32) { u.sgdPortable(w, g) }},
	{"MomentumSGD", 1,
		func(u *Update, w, g []float32, s [][]float32) { u.MomentumSGD(w, g, s[0]) },
		func(u *Update, w, g []float32, s [][]float32) { u.momentumPortable(w, g, s[0]) }},
	{"Nesterov", 1,
		func(u *Update, w, g []float32, s [][]float32) { u.Nesterov(w, g, s[0]) },
		func(u *Update, w, g []float32, s [][]float32) { u.nesterovPortable(w, g, s[0]) }},
	{"Adam", 2,
		func(u *Update, w, g []float32, s [][]float32) { u.Adam(w, g, s[0], s[1]) },
		func(u *Update, w, g []float32, s [][]float32) { u.adamPortable(w, g, s[0], s[1]) }},
	{"Adagrad", 1,
		func(u *Update, w, g []float32, s [][]float32) { u.Adagrad(w, g, s[0]) },
		func(u *Update, w, g []float32, s [][]float32) { u.adagradPortable(w, g, s[0]) }},
	{"RMSProp", 1,
		func(u *Update, w, g []float32, s [][]float32) { u.RMSProp(w, g, s[0], nil, nil) },
		func(u *Update, w, g []float32, s [][]float32) { u.rmspropPortable(w, g, s[0], nil, nil) }},
	{"RMSProp centered", 2,
		func(u *Update, w, g []float32, s [][]float32) { u.RMSProp(w, g, s[0], s[1], nil) },
		func(u *Update, w, g []float32, s [][]float32) { u.rmspropPortable(w, g, s[0], s[1], nil) }},
	{"RMSProp with momentum", 2,
		func(u *Update, w, g []float32, s [][]float32) { u.RMSProp(w, g, s[0], nil, s[1]) },
		func(u *Update, w, g []float32, s [][]float32) { u.rmspropPortable(w, g, s[0], nil, s[1]) }},
	{"RMSProp centered with momentum", 3,
		func(u *Update, w, g []float32, s [][]float32) { u.RMSProp(w, g, s[0], s[1], s[2]) },
		func(u *Update, w, g []float32, s [][]float32) { u.rmspropPortable(w, g, s[0], s[1], s[2]) }},
	{"FTRL", 2,
		func(u *Update, w, g []float32, s [][]float32) { u.FTRL(w, g, s[0], s[1]) },
		func(u *Update, w, g []float32, s [][]float32) { u.ftrlPortable(w, g, s[0], s[1]) }},
	{"Lamb", 2,
		func(u *Update, w, g []float32, s [][]float32) { u.Lamb(w, g, s[0], s[1]) },
		func(u *Update, w, g []float32, s [][]float32) { u.lambPortable(w, g, s[0], s[1]) }},
}

// Every number differs from every other, so that none can stand in for another.
var someUpdate = Update{
	Scale: 0.7, Clip: 0.9, Shrink: 0.8, Rate: 0.1, Decay: 0.03, Momentum: 0.85, Factor: 1.3, Beta1: 0.91, Rest1: 0.09, Beta2: 0.96,
	Rest2: 0.04, Correction: 1.3, Root: 1.7, Epsilon: 1e-3, Keep: 0.99, Inverse: 3, Beta: 1.1, L1: 0.6,
}

// unaligned is a slice of n values that begins anywhere in a vector.
func unaligned(r *rand.Rand, n int) []float32 {
	at := r.IntN(16)
	return normal(r, at+n)[at:]
}

func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
			t.Fatalf("%s: [%d] of %d = %g (%x), want %g (%x)", what, i, len(want), got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

func cloneAll(arrays [][]float32) [][]float32 {
	var c [][]float32
	for _, a := range arrays {
		c = append(c, append([]float32(nil), a...))
	}
	return c
}

var oddValues = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0, float32(math.Copysign(0, -1)), 1e-41, 3e38}

// Bit for bit, at every length and alignment, NaNs and infinities included; and nothing beyond the
// arrays changes.
func TestUpdatesAreThePlainLoopToTheBit(t *testing.T) {
	unclipped := someUpdate
	unclipped.Clip, unclipped.Shrink = float32(math.Inf(1)), 1
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 1))
		for _, rule := range updateRules {
			for n := range 71 {
				for _, u := range []Update{someUpdate, unclipped} {
					value, all := guarded(r, n)
					grad := unaligned(r, n)
					arrays := [][]float32{value, grad}
					for range rule.slots {
						slot := unaligned(r, n)
						for i, x := range slot {
							slot[i] = x * x
						}
						arrays = append(arrays, slot)
					}
					if n%3 == 0 {
						for _, a := range arrays {
							for i := range a {
								if r.IntN(8) == 0 {
									a[i] = oddValues[r.IntN(len(oddValues))]
								}
							}
						}
					}
					want := cloneAll(arrays)
					for range 3 {
						rule.run(&u, value, grad, arrays[2:])
						rule.portable(&u, want[0], want[1], want[2:])
					}
					for k := range want {
						sameBits(t, rule.name, arrays[k], want[k])
					}
					intact(t, rule.name, all, n)
				}
			}
		}
	})
}

func TestAnElementDoesNotDependOnWhereTheArraysAreCut(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 2))
		for _, rule := range updateRules {
			for range 20 {
				n := r.IntN(300)
				whole := [][]float32{unaligned(r, n), unaligned(r, n)}
				for range rule.slots {
					slot := unaligned(r, n)
					for i, x := range slot {
						slot[i] = x * x
					}
					whole = append(whole, slot)
				}
				pieces := cloneAll(whole)
				rule.run(&someUpdate, whole[0], whole[1], whole[2:])
				for from := 0; from < n; {
					to := min(n, from+1+r.IntN(50))
					var piece [][]float32
					for _, a := range pieces {
						piece = append(piece, a[from:to:to])
					}
					rule.run(&someUpdate, piece[0], piece[1], piece[2:])
					from = to
				}
				for k := range whole {
					sameBits(t, rule.name, pieces[k], whole[k])
				}
			}
		}
	})
}

func TestSumsOfSquaresAreTheSameOnEveryPath(t *testing.T) {
	type sums struct{ squares, limited, lamb float64 }
	want := map[int]sums{}
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 3))
		for n := range 71 {
			w, g, m, v := unaligned(r, n), unaligned(r, n), unaligned(r, n), unaligned(r, n)
			var plain sums
			for i := range v {
				v[i] *= v[i]
				rr, _, _ := someUpdate.lambStep(w[i], g[i], m[i], v[i])
				x := max(-0.9, min(0.9, 0.7*float64(g[i])))
				plain = sums{plain.squares + float64(g[i])*float64(g[i]), plain.limited + x*x, plain.lamb + float64(rr)*float64(rr)}
			}
			before := cloneAll([][]float32{w, g, m, v})
			got := sums{Squares(g), someUpdate.Squares(g), someUpdate.LambSquares(w, g, m, v)}
			for k, a := range [][]float32{w, g, m, v} {
				sameBits(t, "LambSquares changed", a, before[k])
			}
			if !near(got.squares, plain.squares, 1e-13) || !near(got.limited, plain.limited, 1e-6) || !near(got.lamb, plain.lamb, 1e-13) {
				t.Fatalf("sums of %d: got %+v, want %+v", n, got, plain)
			}
			if first, ok := want[n]; ok && got != first {
				t.Fatalf("sums of %d: got %+v, on the portable path %+v", n, got, first)
			}
			want[n] = got
		}
	})
}

// One look reports whether all values are finite.
func TestSquaresAreNotFiniteIfAnyValueIsNot(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		for _, n := range []int{1, 15, 16, 17, 100} {
			x := make([]float32, n)
			for i := range x {
				x[i] = math.MaxFloat32
			}
			if got := Squares(x); !(got <= math.MaxFloat64) {
				t.Errorf("%d times the largest float32: got %v, want a finite sum", n, got)
			}
			for i := range x {
				for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
					x[i] = float32(bad)
					if got := Squares(x); got <= math.MaxFloat64 {
						t.Errorf("%d values, number %d of them %v: got the sum %v", n, i, bad, got)
					}
				}
				x[i] = 1
			}
		}
	})
}

func TestUpdateOfArraysThatDoNotFitPanics(t *testing.T) {
	for _, rule := range updateRules {
		if rule.slots == 0 {
			continue
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s with a short slot did not panic", rule.name)
				}
			}()
			slots := [][]float32{make([]float32, 20), make([]float32, 20), make([]float32, 20)}
			slots[rule.slots-1] = make([]float32, 19)
			u := someUpdate
			rule.run(&u, make([]float32, 20), make([]float32, 20), slots)
		}()
	}
}
