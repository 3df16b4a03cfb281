package cudnn

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
)

// plainNorm is a Norm in plain loops.
func plainNorm(n Norm, x, add, scale, bias, runningMean, runningVar []float32) (y, mask, mean, invstd, newMean, newVar []float32) {
	m := n.N * n.H * n.W
	y, mask = make([]float32, m*n.C), make([]float32, m*n.C)
	for c := range n.C {
		var sum, square float64
		for i := range m {
			sum += float64(x[i*n.C+c])
		}
		mu := sum / float64(m)
		for i := range m {
			square += (float64(x[i*n.C+c]) - mu) * (float64(x[i*n.C+c]) - mu)
		}
		v := square / float64(m)
		inv := 1 / math.Sqrt(v+float64(n.Epsilon))
		mean, invstd = append(mean, float32(mu)), append(invstd, float32(inv))
		if n.Running {
			f := float64(n.Momentum)
			newMean = append(newMean, float32((1-f)*float64(runningMean[c])+f*mu))
			newVar = append(newVar, float32((1-f)*float64(runningVar[c])+f*v*float64(m)/float64(m-1)))
		}
		for i := range m {
			k := i*n.C + c
			t := float64(scale[c])*(float64(x[k])-mu)*inv + float64(bias[c])
			if n.Add {
				t += float64(add[k])
			}
			if n.ReLU {
				t = max(t, 0)
			}
			y[k] = float32(t)
			if t > 0 {
				mask[k] = 1
			}
		}
	}
	return y, mask, mean, invstd, newMean, newVar
}

func bits(data []byte, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(data[i/8] >> (i % 8) & 1)
	}
	return out
}

// norms are normalisations with and without what follows them.
var norms = []Norm{
	{N: 2, C: 8, H: 3, W: 3, Epsilon: 1e-5},
	{N: 2, C: 16, H: 4, W: 3, ReLU: true, Epsilon: 1e-3},
	{N: 3, C: 8, H: 2, W: 5, Add: true, Epsilon: 1e-5, Running: true, Momentum: 0.1},
	{N: 2, C: 8, H: 4, W: 4, Add: true, ReLU: true, Epsilon: 1e-5, Running: true, Momentum: 0.25},
	{N: 1, C: 24, H: 5, W: 1, ReLU: true, Mask: true, Epsilon: 1e-5},
	{N: 2, C: 8, H: 4, W: 4, Add: true, ReLU: true, Mask: true, Epsilon: 1e-5, Running: true, Momentum: 0.1},
	{N: 2, C: 8, H: 4, W: 4, Add: true, ReLU: true, Mask: true, Zeros: true, Epsilon: 1e-5, Running: true, Momentum: 0.1},
}

// normCheck draws numbers for a normalisation, and gives what holds the result of a plan against
// plain loops.
func normCheck(b *bench, r *rand.Rand, n Norm) func(p *NormPlan) error {
	dtype, size := n.Type, n.N*n.C*n.H*n.W
	x, add := random(r, dtype, size), random(r, dtype, size)
	scale, bias, runningMean, runningVar := random(r, Float32, n.C), random(r, Float32, n.C), random(r, Float32, n.C), random(r, Float32, n.C)
	y, mask, mean, invstd, newMean, newVar := plainNorm(n, x, add, scale, bias, runningMean, runningVar)
	return func(p *NormPlan) error {
		a := NormArgs{X: b.put(dtype, x), Scale: b.put(Float32, scale), Bias: b.put(Float32, bias), Y: b.room(int64(size) * dtype.Size()),
			Mean: b.room(int64(n.C) * 4), InvStd: b.room(int64(n.C) * 4)}
		if n.Add {
			a.Add = b.put(dtype, add)
		}
		if n.Running {
			a.RunningMean, a.RunningVar = b.put(Float32, runningMean), b.put(Float32, runningVar)
		}
		if n.Mask {
			a.Mask = b.room(int64(size) / 8)
		}
		if n.Zeros {
			a.Zeros = b.put(dtype, make([]float32, size))
		}
		workspace := b.room(p.Workspace())
		if err := b.ctx.Do(func() error { return errors.Join(p.Run(b.s, workspace, a), b.ctx.Synchronize(b.s)) }); err != nil {
			return err
		}
		what := p.Engine() + " for " + n.String()
		near(b.T, what+": y", b.get(dtype, a.Y, size), y, ulp(dtype))
		near(b.T, what+": mean", b.get(Float32, a.Mean, n.C), mean, 1e-5)
		near(b.T, what+": invstd", b.get(Float32, a.InvStd, n.C), invstd, 1e-5)
		if n.Running {
			near(b.T, what+": running mean", b.get(Float32, a.RunningMean, n.C), newMean, 1e-5)
			near(b.T, what+": running variance", b.get(Float32, a.RunningVar, n.C), newVar, 1e-5)
		}
		if n.Mask {
			near(b.T, what+": mask", bits(b.raw(a.Mask, int64(size)/8), size), mask, 0)
		}
		return nil
	}
}

// Every engine that is offered gives a normalisation's numbers, with and without what follows it.
func TestNormsEqualPlainLoops(t *testing.T) {
	b := newBench(t)
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range norms {
		for _, n.Type = range []DType{BFloat16, Float32, Float16} {
			all := plans(b, func() ([]*NormPlan, error) { return b.h.NormAddReLU(n) })
			if got, want := engines(all), "eng20 k2=4, eng24"; got != want {
				t.Fatalf("%v: engines: got %s, want %s", n, got, want)
			}
			check := normCheck(b, r, n)
			for _, p := range all {
				gputest.Must(t, check(p))
			}
		}
	}
}

// What is not a number comes through ReLU: a step that went wrong must not look well.
func TestReLUKeepsWhatIsNotANumber(t *testing.T) {
	b := newBench(t)
	n := Norm{N: 1, C: 8, H: 2, W: 2, Type: BFloat16, Add: true, ReLU: true, Epsilon: 1e-5}
	p := plans(b, func() ([]*NormPlan, error) { return b.h.NormAddReLU(n) })[0]
	x, one := make([]float32, 32), make([]float32, 32)
	for i := range one {
		one[i] = 1
	}
	one[5] = float32(math.NaN())
	a := NormArgs{X: b.put(BFloat16, x), Add: b.put(BFloat16, one), Scale: b.put(Float32, one[8:16]), Bias: b.put(Float32, x[:8]), Y: b.room(64), Mean: b.room(32), InvStd: b.room(32)}
	workspace := b.room(p.Workspace())
	b.do(func() error { return p.Run(b.s, workspace, a) })
	for i, y := range b.get(BFloat16, a.Y, 32) {
		if math.IsNaN(float64(y)) != (i == 5) || i != 5 && y != 1 {
			t.Errorf("y[%d] is %v, want 1, and NaN at 5 alone", i, y)
		}
	}
}

// normGrads are gradients with and without the mask of ReLU and the gradient of what was added.
var normGrads = []NormGrad{
	{N: 2, C: 8, H: 3, W: 3},
	{N: 2, C: 16, H: 4, W: 3, Mask: true},
	{N: 3, C: 8, H: 2, W: 5, Mask: true, DAdd: true},
}

// normGradCheck is normCheck for a gradient.
func normGradCheck(b *bench, r *rand.Rand, n NormGrad) func(p *NormGradPlan) error {
	dtype, m, size := n.Type, n.N*n.H*n.W, n.N*n.C*n.H*n.W
	x, dy := random(r, dtype, size), random(r, dtype, size)
	scale, mean, invstd := random(r, Float32, n.C), random(r, Float32, n.C), random(r, Float32, n.C)
	mask := make([]byte, size/8)
	for i := range mask {
		mask[i] = byte(r.Uint32())
	}
	dt := append([]float32(nil), dy...)
	if n.Mask {
		for i, bit := range bits(mask, size) {
			dt[i] *= bit
		}
	}
	dx, dscale, dbias := make([]float32, size), make([]float32, n.C), make([]float32, n.C)
	for c := range n.C {
		var db, ds float64
		hat := func(i int) float64 { return (float64(x[i*n.C+c]) - float64(mean[c])) * float64(invstd[c]) }
		for i := range m {
			db += float64(dt[i*n.C+c])
			ds += float64(dt[i*n.C+c]) * hat(i)
		}
		dbias[c], dscale[c] = float32(db), float32(ds)
		for i := range m {
			dx[i*n.C+c] = float32(float64(scale[c]) * float64(invstd[c]) * (float64(dt[i*n.C+c]) - db/float64(m) - hat(i)*ds/float64(m)))
		}
	}
	return func(p *NormGradPlan) error {
		a := NormGradArgs{X: b.put(dtype, x), DY: b.put(dtype, dy), Scale: b.put(Float32, scale), Mean: b.put(Float32, mean), InvStd: b.put(Float32, invstd),
			DX: b.room(int64(size) * dtype.Size()), DScale: b.room(int64(n.C) * 4), DBias: b.room(int64(n.C) * 4)}
		if n.Mask {
			a.Mask = b.bytes(mask)
		}
		if n.DAdd {
			a.DAdd = b.room(int64(size) * dtype.Size())
		}
		workspace := b.room(p.Workspace())
		if err := b.ctx.Do(func() error { return errors.Join(p.Run(b.s, workspace, a), b.ctx.Synchronize(b.s)) }); err != nil {
			return err
		}
		what := p.Engine() + " for " + n.String()
		near(b.T, what+": dx", b.get(dtype, a.DX, size), dx, ulp(dtype))
		near(b.T, what+": dscale", b.get(Float32, a.DScale, n.C), dscale, 1e-5)
		near(b.T, what+": dbias", b.get(Float32, a.DBias, n.C), dbias, 1e-5)
		if n.DAdd {
			near(b.T, what+": dadd", b.get(dtype, a.DAdd, size), dt, 0)
		}
		return nil
	}
}

// Every engine that is offered gives the normalisation's gradients, with and without the mask of
// ReLU and the gradient of what was added.
func TestNormGradientsEqualPlainLoops(t *testing.T) {
	b := newBench(t)
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range normGrads {
		for _, n.Type = range []DType{BFloat16, Float32, Float16} {
			check := normGradCheck(b, r, n)
			for _, p := range plans(b, func() ([]*NormGradPlan, error) { return b.h.NormAddReLUGrad(n) }) {
				gputest.Must(t, check(p))
			}
		}
	}
}

// A library that makes no mask by comparing with a number is asked for one by comparing with zeros.
func TestMaskFallsBackToZeros(t *testing.T) {
	b := newBench(t, "cudnn_mask_scalar", 0)
	n := Norm{N: 2, C: 8, H: 4, W: 4, Type: BFloat16, ReLU: true, Mask: true, Epsilon: 1e-5}
	for _, p := range plans(b, func() ([]*NormPlan, error) { return b.h.NormAddReLU(n) }) {
		if !p.Norm().Zeros {
			t.Errorf("%s: Norm().Zeros is false", p.Engine())
		}
	}
	var p *NormPlan
	b.do(func() (err error) {
		tuner := Tuner{Handle: b.h, Stream: b.s, Repeat: 1}
		p, err = tuner.Norm(n)
		return
	})
	defer b.do(p.Close)
	if !p.Norm().Zeros {
		t.Error("the tuner's choice: Norm().Zeros is false")
	}
}

// What no normalisation can be is an error that names it; what the library does not do is
// ErrNotSupported.
func TestBadNormsAreErrors(t *testing.T) {
	b := newBench(t)
	good := Norm{N: 2, C: 8, H: 4, W: 4, Type: BFloat16, Epsilon: 1e-5}
	for _, c := range []struct {
		change func(*Norm)
		want   string
	}{
		{func(n *Norm) { n.C = 0 }, "C is 0"},
		{func(n *Norm) { n.Type = 3 }, "DType(3)"},
		{func(n *Norm) { n.Epsilon = 0 }, "Epsilon is 0"},
		{func(n *Norm) { n.Epsilon = float32(math.NaN()) }, "Epsilon is NaN"},
		{func(n *Norm) { n.Running, n.Momentum = true, 2 }, "Momentum is 2"},
		{func(n *Norm) { n.Mask = true }, "without ReLU"},
		{func(n *Norm) { n.C, n.N, n.H, n.W, n.Mask, n.ReLU = 3, 1, 1, 1, true, true }, "3 bits"},
	} {
		n := good
		c.change(&n)
		b.do(func() error {
			_, err := b.h.NormAddReLU(n)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), n.String()) {
				t.Errorf("%v: got error %v, want one with %q and the shape", n, err, c.want)
			}
			return nil
		})
	}
	odd := good
	odd.C = 12
	b.do(func() error {
		_, err := b.h.NormAddReLU(odd)
		if !errors.Is(err, ErrNotSupported) || !strings.Contains(fmt.Sprint(err), "12 channels") {
			t.Errorf("%v: got error %v, want ErrNotSupported with the library's reason", odd, err)
		}
		_, err = b.h.NormAddReLUGrad(NormGrad{N: 2, C: 8, H: 4, W: 4, DAdd: true})
		if err == nil || !strings.Contains(err.Error(), "DAdd is set without Mask") {
			t.Errorf("DAdd without Mask: got error %v", err)
		}
		return nil
	})
}

// A missing pointer is found before the library is asked.
func TestNormWantsItsMemory(t *testing.T) {
	b := newBench(t)
	n := Norm{N: 2, C: 8, H: 4, W: 4, Type: BFloat16, Add: true, Epsilon: 1e-5}
	all := plans(b, func() ([]*NormPlan, error) { return b.h.NormAddReLU(n) })
	ptr := b.room(4096)
	workspace := b.room(all[0].Workspace())
	err := b.ctx.Do(func() error {
		return all[0].Run(b.s, workspace, NormArgs{X: ptr, Scale: ptr, Bias: ptr, Y: ptr, Mean: ptr, InvStd: ptr})
	})
	if err == nil || !strings.Contains(err.Error(), "add lies at 0x0") {
		t.Errorf("got error %v, want one that names add", err)
	}
}
