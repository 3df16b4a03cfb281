//go:build linux && (amd64 || arm64) && !android && !nocuda

package kernels

import (
	"fmt"
	"math"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/tensor"
)

// A normCase is one batch normalisation with all that the reference says of it, channels last.
type normCase struct {
	s                       shape
	x, add, dy, gamma, beta []float64
	mean, invstd            []float64
	runMean, runVar         []float64 // before
	movedMean, movedVar     []float64 // after

	// y comes with add and relu as asked.
	y []float64

	dz, dx, dgamma, dbeta    []float64
	evaluated                []float64
	eps, momentum            float64
	xp, ap, dyp, gp, bp      drv.Ptr
	runMeanAt, runVarAt, mat drv.Ptr
	iat, workspace           drv.Ptr
}

// newNorm puts the arguments into the box, rounded to the type, and computes the reference of what
// was put. round is applied to y before the ReLU's gradient looks at it.
func newNorm(b *box, typ Type, s shape, relu, add bool, offset float64) *normCase {
	c := &normCase{s: s, eps: 1e-5, momentum: 0.1}
	n, channels := s.all(), s[1]
	c.x = mapped(random(11, n), func(v float64) float64 { return 2*v + offset })
	c.dy = random(12, n)
	c.gamma = mapped(random(13, channels), func(v float64) float64 { return 1 + v/4 })
	c.beta, c.runMean = random(14, channels), random(15, channels)
	c.runVar = mapped(random(16, channels), func(v float64) float64 { return 1 + v*v })
	c.xp, c.dyp = b.put(typ, c.x), b.put(typ, c.dy)
	if add {
		c.add = random(17, n)
		c.ap = b.put(typ, c.add)
	}
	c.gp, c.bp = b.put(Float32, c.gamma), b.put(Float32, c.beta)
	c.runMeanAt, c.runVarAt = b.put(Float32, c.runMean), b.put(Float32, c.runVar)
	c.mat, c.iat = b.empty(Float32, channels), b.empty(Float32, channels)
	c.workspace = b.room(int(b.BatchNormWorkspace(channels)))

	clone := func(v []float64) []float64 { return append([]float64{}, v...) }
	mode := &op.Mode{}
	bn := &op.BatchNorm2D{Eps: c.eps, Momentum: c.momentum, Mode: mode, State: &op.BatchNormState{Name: "bn",
		Mean: dense(clone(c.runMean), channels), Var: dense(clone(c.runVar), channels)}}
	images := func(v []float64) *tensor.Dense { return dense(s.first(v), s[:]...) }
	x, gamma, beta := images(c.x), dense(clone(c.gamma), channels), dense(clone(c.beta), channels)
	finish := func(y []float64) []float64 {
		y = s.last(y)
		for i := range y {
			if add {
				y[i] += c.add[i]
			}
			if relu {
				y[i] = max(y[i], 0)
			}
		}
		return y
	}
	mode.Inference = true
	c.evaluated = finish(numbersOf(do(b.t, bn, x, gamma, beta)[0]))
	mode.Inference = false
	out, err := bn.Do(x, gamma, beta)
	if err != nil {
		b.t.Fatal(err)
	}
	values := out.(*op.Tuple).Values
	c.y, c.mean, c.invstd = finish(numbersOf(values[0])), numbersOf(values[1]), numbersOf(values[2])
	c.movedMean, c.movedVar = numbersOf(bn.State.Mean), numbersOf(bn.State.Var)
	c.dz = clone(c.dy)
	for i := range c.dz {
		if relu && !(c.y[i] > 0) {
			c.dz[i] = 0
		}
	}
	grads := do(b.t, &op.BatchNorm2DGrad{Name: "bn", Mode: mode}, x, gamma, out, images(c.dz))
	c.dx, c.dgamma, c.dbeta = s.last(numbersOf(grads[0])), numbersOf(grads[1]), numbersOf(grads[2])
	return c
}

func (c *normCase) forward(typ Type, relu bool) BatchNorm {
	return BatchNorm{Type: typ, Rows: c.s.all() / c.s[1], C: c.s[1], X: c.xp, Add: c.ap, ReLU: relu, Gamma: c.gp, Beta: c.bp,
		Mean: c.mat, InvStd: c.iat, RunMean: c.runMeanAt, RunVar: c.runVarAt, Eps: c.eps, Momentum: c.momentum, Workspace: c.workspace}
}

// few leaves out shapes where all of them would take long.
func few(b *box, typ Type, s shape) bool {
	return s.all() > 2500 && (b.order != 5 || typ == Float16 || b.skew != 0) || s[1] > 2000 && typ == Float32
}

// lone reports whether a channel has one value. Programs normalise it by the running statistics,
// with BatchNormEval: the kernels that take a batch's statistics never see it.
func lone(s shape) bool { return s.all() == s[1] }

func TestBatchNorm(t *testing.T) {
	for _, kind := range []struct{ relu, add bool }{{false, false}, {true, true}, {true, false}} {
		t.Run(fmt.Sprintf("relu=%t/add=%t", kind.relu, kind.add), func(t *testing.T) {
			everyWay(t, func(b *box, typ Type) {
				for _, s := range images {
					if few(b, typ, s) {
						continue
					}
					c := newNorm(b, typ, s, kind.relu, kind.add, 0.5)
					n, channels := s.all(), s[1]
					f := c.forward(typ, kind.relu)
					f.Y = b.empty(typ, n)
					b.must(b.BatchNormEval(0, f))
					near(b.t, fmt.Sprint(s, " evaluated"), typ, b.get(typ, f.Y, n), c.evaluated, 10)
					if lone(s) {
						b.reset()
						continue
					}
					masks := b.skew == 0 && channels%8 == 0
					if masks {
						f.Mask = b.room(n / 8)
					}
					f.Y = b.empty(typ, n)
					b.must(b.BatchNorm(0, f))
					near(b.t, fmt.Sprint(s, " mean"), Float32, b.get(Float32, c.mat, channels), c.mean, 4)
					near(b.t, fmt.Sprint(s, " invstd"), Float32, b.get(Float32, c.iat, channels), c.invstd, 20)
					near(b.t, fmt.Sprint(s, " running mean"), Float32, b.get(Float32, c.runMeanAt, channels), c.movedMean, 2)
					near(b.t, fmt.Sprint(s, " running variance"), Float32, b.get(Float32, c.runVarAt, channels), c.movedVar, 4)
					near(b.t, fmt.Sprint(s, " y"), typ, b.get(typ, f.Y, n), c.y, 30)
					if masks {
						bits := b.bytes(f.Mask, n/8)
						for i, y := range b.get(typ, f.Y, n) {
							if got := bits[i/8]>>(i%8)&1 == 1; got != (y > 0) && kind.relu {
								b.t.Fatalf("%v: mask[%d] is %t, and y %v", s, i, got, y)
							}
						}
					}

					// The result goes to the place of what is added.
					if kind.add && b.order == 0 {
						f.Y = c.ap
						b.must(b.BatchNormApply(0, f))
						near(b.t, fmt.Sprint(s, " y in place"), typ, b.get(typ, c.ap, n), c.y, 30)
					}
					b.reset()
				}
			})
		})
	}
}

func TestBatchNormGradWithEachWayToKnowTheMask(t *testing.T) {
	for _, how := range []string{"none", "y", "bits", "x", "y and the residual", "bits and the residual"} {
		t.Run(how, func(t *testing.T) {
			relu, add := how != "none", how == "y" || how == "bits" || len(how) > 4
			everyWay(t, func(b *box, typ Type) {
				for _, s := range images {
					byBits := how[:1] == "b"
					if few(b, typ, s) || lone(s) || byBits && (b.skew != 0 || s[1]%8 != 0) {
						continue
					}
					c := newNorm(b, typ, s, relu, add, 0.5)
					n, channels := s.all(), s[1]
					f := c.forward(typ, relu)
					f.Y = b.empty(typ, n)
					if byBits {
						f.Mask = b.room(n / 8)
					}
					b.must(b.BatchNorm(0, f))
					g := BatchNormGrad{Type: typ, Rows: f.Rows, C: channels, X: c.xp, DY: c.dyp, Gamma: c.gp, Mean: c.mat, InvStd: c.iat,
						DX: b.empty(typ, n), DGamma: b.empty(Float32, channels), DBeta: b.empty(Float32, channels), Workspace: c.workspace}
					switch how[:1] {
					case "y":
						g.Y = f.Y
					case "b":
						g.Mask = f.Mask
					case "x":
						g.Beta = c.bp
					}
					if len(how) > 4 {
						g.DAdd = b.empty(typ, n)
					}
					b.must(b.BatchNormGrad(0, g))
					scale := 40 + float64(n/channels)
					near(b.t, fmt.Sprint(s, " dgamma"), Float32, b.get(Float32, g.DGamma, channels), c.dgamma, scale)
					near(b.t, fmt.Sprint(s, " dbeta"), Float32, b.get(Float32, g.DBeta, channels), c.dbeta, scale)
					if g.DAdd != 0 {
						same(b.t, fmt.Sprint(s, " dadd"), b.get(typ, g.DAdd, n), c.dz)
					}
					near(b.t, fmt.Sprint(s, " dx"), typ, b.get(typ, g.DX, n), c.dx, 60)

					// The result goes to the place of dy.
					if b.order == 0 {
						g.DX, g.DGamma, g.DBeta, g.DAdd = c.dyp, 0, 0, 0
						b.must(b.BatchNormGrad(0, g))
						near(b.t, fmt.Sprint(s, " dx in place"), typ, b.get(typ, c.dyp, n), c.dx, 60)
					}
					b.reset()
				}
			})
		})
	}
}

func TestStatisticsKeepTheirPrecisionFarFromZero(t *testing.T) {
	everyOrder(t, func(b *box) {
		b.t = t
		s := shape{3, 8, 30, 10}
		c := newNorm(b, Float32, s, false, false, 3000)
		b.must(b.BatchNormStatistics(0, c.forward(Float32, false)))
		near(t, "mean", Float32, b.get(Float32, c.mat, 8), c.mean, 4)
		near(t, "invstd", Float32, b.get(Float32, c.iat, 8), c.invstd, 100)
		// One row that lies far off must not spoil it either.
		v := append([]float64{}, c.x...)
		for k := range 8 {
			v[k] = -1e5
		}
		f := c.forward(Float32, false)
		f.X = b.put(Float32, v)
		b.must(b.BatchNormStatistics(0, f))
		rows := float64(f.Rows)
		for k, got := range b.get(Float32, c.iat, 8) {
			var m, q float64
			for i := k; i < len(v); i += 8 {
				m += v[i] / rows
			}
			for i := k; i < len(v); i += 8 {
				q += (v[i] - m) * (v[i] - m) / rows
			}
			if want := 1 / math.Sqrt(q+c.eps); math.Abs(got-want) > 1e-5*want {
				t.Fatalf("invstd of channel %d with an outlier: got %v, want %v", k, got, want)
			}
		}
	})
}

func TestBatchNormRefusesWhatItCannotDo(t *testing.T) {
	b := newBox(t, 2, 0)
	c := newNorm(b, Float32, shape{2, 3, 2, 2}, true, false, 0)
	f := c.forward(Float32, true)
	f.Y, f.Mask = b.empty(Float32, 24), b.room(3)
	if err := b.BatchNorm(0, f); err == nil {
		t.Error("a mask of 3 channels gave no error")
	}
	f.Mask, f.Y = 0, 0
	if err := b.BatchNorm(0, f); err == nil {
		t.Error("no Y gave no error")
	}
	g := BatchNormGrad{Type: Float32, Rows: 8, C: 3, X: c.xp, DY: c.dyp, Gamma: c.gp, Mean: c.mat, InvStd: c.iat, Y: c.xp, Beta: c.bp, Workspace: c.workspace}
	if err := b.BatchNormGrad(0, g); err == nil {
		t.Error("two ways to know the mask gave no error")
	}
	if err := b.Add(0, Int32, 3, c.xp, c.xp, c.xp, false); err == nil {
		t.Error("a sum of i32 gave no error")
	}
}

// A NaN in a gradient comes out of a normalisation's gradient also where the ReLU lets nothing
// through.
func TestBatchNormGradKeepsNaN(t *testing.T) {
	everyWay(t, func(b *box, typ Type) {
		if b.order != 0 || b.skew != 0 {
			return
		}
		for _, how := range []string{"y", "bits", "x"} {
			s := shape{2, 8, 3, 3}
			c := newNorm(b, typ, s, true, false, 0)
			n := s.all()
			f := c.forward(typ, true)
			f.Y = b.empty(typ, n)
			if how == "bits" {
				f.Mask = b.room(n / 8)
			}
			b.must(b.BatchNorm(0, f))
			dy, held := make([]float64, n), make([]bool, 8)
			for i, y := range b.get(typ, f.Y, n) {
				if y == 0 {
					dy[i], held[i%8] = math.NaN(), true
				}
			}
			g := BatchNormGrad{Type: typ, Rows: f.Rows, C: 8, X: c.xp, DY: b.put(typ, dy), Gamma: c.gp, Mean: c.mat, InvStd: c.iat,
				DX: b.empty(typ, n), DGamma: b.empty(Float32, 8), DBeta: b.empty(Float32, 8), Workspace: c.workspace}
			switch how {
			case "y":
				g.Y = f.Y
			case "bits":
				g.Mask = f.Mask
			case "x":
				g.Beta = c.bp
			}
			b.must(b.BatchNormGrad(0, g))
			for k, v := range b.get(Float32, g.DGamma, 8) {
				if held[k] && v == v {
					b.t.Errorf("mask by %s: dgamma of channel %d is %g, want NaN", how, k, v)
				}
			}
			b.reset()
		}
	})
}
