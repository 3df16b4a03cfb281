package cuda

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/cuda/cudnn"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
)

// The loops over numbers below are left without instrumentation: they read and write what only they
// have, and the memory of the device, which is the lock's of the Fake.

// load reads n numbers.
//
//go:norace
func (f *Fake) load(p drv.Ptr, t kernels.Type, n int) []float32 {
	out := make([]float32, n)
	m := f.memory(p, int64(n)*t.Size())
	for i := range out {
		switch t {
		case kernels.Float32:
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(m[4*i:]))
		case kernels.BFloat16:
			out[i] = f32.BFloat16Value(binary.LittleEndian.Uint16(m[2*i:]))
		case kernels.Float16:
			out[i] = f32.Float16Value(binary.LittleEndian.Uint16(m[2*i:]))
		case kernels.Int32:
			out[i] = float32(int32(binary.LittleEndian.Uint32(m[4*i:])))
		case kernels.Uint8:
			out[i] = float32(m[i])
		}
	}
	return out
}

// store writes numbers, rounded to the type.
//
//go:norace
func (f *Fake) store(p drv.Ptr, t kernels.Type, x []float32) {
	m := f.memory(p, int64(len(x))*t.Size())
	for i, v := range x {
		switch t {
		case kernels.Float32:
			binary.LittleEndian.PutUint32(m[4*i:], math.Float32bits(v))
		case kernels.BFloat16:
			binary.LittleEndian.PutUint16(m[2*i:], f32.BFloat16Bits(v))
		case kernels.Float16:
			binary.LittleEndian.PutUint16(m[2*i:], f32.Float16Bits(v))
		case kernels.Uint8:
			m[i] = uint8(v)
		}
	}
}

// number is one float32, or missing where p is 0.
func (f *Fake) number(p drv.Ptr, missing float32) float32 {
	if p == 0 {
		return missing
	}
	return f.load(p, kernels.Float32, 1)[0]
}

type fakeKernels struct{ *Fake }

// An eachElement makes number i of a result of those of one or two operands.
type eachElement func(i int, a, b float32) float32

// each sets y[i] = do(i, a[i], b[i]). That prepare, called when the work is done, gives do lets do
// hold what it reads from the device once.
func (k fakeKernels) each(s drv.Stream, name string, to, from kernels.Type, n int64, y drv.Ptr, prepare func() eachElement, args ...drv.Ptr) error {
	return k.give(s, fmt.Sprintf("%s %v %v %d", name, to, from, n), func() {
		a := k.load(args[0], from, int(n))
		b := a
		if len(args) > 1 {
			b = k.load(args[1], from, int(n))
		}
		prepare().apply(a, b)
		k.Fake.store(y, to, a)
	})
}

func ready(do eachElement) func() eachElement { return func() eachElement { return do } }

//go:norace
func (do eachElement) apply(a, b []float32) {
	for i, v := range a {
		a[i] = do(i, v, b[i])
	}
}

func relu(v float32, on bool) float32 {
	if on && v < 0 {
		return 0
	}
	return v
}

func (k fakeKernels) Cast(s drv.Stream, to, from kernels.Type, n int64, dst, src drv.Ptr) error {
	return k.each(s, "cast", to, from, n, dst, ready(func(_ int, a, _ float32) float32 { return a }), src)
}

func (k fakeKernels) Scale(s drv.Stream, t kernels.Type, n int64, dst, src drv.Ptr, constant float32, factor drv.Ptr) error {
	return k.each(s, "scale", t, t, n, dst, func() eachElement {
		f := k.number(factor, 1)
		return func(_ int, a, _ float32) float32 { return a * constant * f }
	}, src)
}

func (k fakeKernels) Unscale(s drv.Stream, from kernels.Type, n int64, dst, src drv.Ptr, constant float32, factor, found drv.Ptr) error {
	return k.each(s, "unscale", kernels.Float32, from, n, dst, func() eachElement {
		f := k.number(factor, 1)
		return func(_ int, a, _ float32) float32 {
			v := a * constant * f
			k.look(v, found)
			return v
		}
	}, src)
}

func (k fakeKernels) look(v float32, found drv.Ptr) {
	if found != 0 && (math.IsNaN(float64(v)) || math.IsInf(float64(v), 0)) {
		k.memory(found, 4)[0] = 1
	}
}

func (k fakeKernels) Add(s drv.Stream, t kernels.Type, n int64, y, a, b drv.Ptr, on bool) error {
	return k.each(s, "add", t, t, n, y, ready(func(_ int, a, b float32) float32 { return relu(a+b, on) }), a, b)
}

func (k fakeKernels) ReLU(s drv.Stream, t kernels.Type, n int64, y, x drv.Ptr) error {
	return k.each(s, "relu", t, t, n, y, ready(func(_ int, a, _ float32) float32 { return relu(a, true) }), x)
}

func (k fakeKernels) ReLUGrad(s drv.Stream, t kernels.Type, n int64, dx, y, dy drv.Ptr) error {
	return k.each(s, "relu_grad", t, t, n, dx, ready(func(_ int, y, dy float32) float32 {
		if y > 0 {
			return dy
		}
		return 0
	}), y, dy)
}

func (k fakeKernels) Dropout(s drv.Stream, t kernels.Type, n int64, y, x, key drv.Ptr, threshold uint64, scale float32, c, hw int) error {
	return k.each(s, "dropout", t, t, n, y, func() eachElement {
		drawn := binary.LittleEndian.Uint64(k.memory(key, 8))
		return func(i int, a, _ float32) float32 {
			if c != 0 {
				i = (i/c/hw*c+i%c)*hw + i/c%hw
			}
			if op.DropoutKeep(drawn, i, threshold) {
				return a * scale
			}
			return 0
		}
	}, x)
}

func (k fakeKernels) BiasAdd(s drv.Stream, t kernels.Type, n, c, inner int, y, x, b drv.Ptr, on bool) error {
	return k.each(s, "bias_add", t, t, int64(n*c*inner), y, func() eachElement {
		bias := k.load(b, kernels.Float32, c)
		return func(i int, a, _ float32) float32 { return relu(a+bias[i/inner%c], on) }
	}, x)
}

func (k fakeKernels) BiasGrad(s drv.Stream, t kernels.Type, n, c, inner int, db, dy, workspace drv.Ptr) error {
	return k.give(s, fmt.Sprintf("bias_grad %v %d %d %d", t, n, c, inner), func() {
		k.memory(workspace, k.SumsWorkspace(c))
		sums := make([]float64, c)
		for i, v := range k.load(dy, t, n*c*inner) {
			sums[i/inner%c] += float64(v)
		}
		k.Fake.store(db, kernels.Float32, narrow(sums))
	})
}

func narrow(x []float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

func (k fakeKernels) SumsWorkspace(c int) int64      { return int64(4 * c) }
func (k fakeKernels) BatchNormWorkspace(c int) int64 { return int64(8*c) + 4 }
func (k fakeKernels) MSEWorkspace() int64            { return 8 }

func (k fakeKernels) BatchNorm(s drv.Stream, b kernels.BatchNorm) error {
	return k.give(s, fmt.Sprintf("bn %v %d %d relu %v add %v mask %v", b.Type, b.Rows, b.C, b.ReLU, b.Add != 0, b.Mask != 0), func() {
		k.statistics(b)
		k.normalise(b, k.load(b.Mean, kernels.Float32, b.C), k.load(b.InvStd, kernels.Float32, b.C))
	})
}

func (k fakeKernels) BatchNormStatistics(s drv.Stream, b kernels.BatchNorm) error {
	return k.give(s, fmt.Sprintf("bn_stats %v %d %d", b.Type, b.Rows, b.C), func() { k.statistics(b) })
}

//go:norace
func (k fakeKernels) statistics(b kernels.BatchNorm) {
	k.memory(b.Workspace, k.BatchNormWorkspace(b.C))
	mean, v := make([]float64, b.C), make([]float64, b.C)
	x := k.load(b.X, b.Type, b.Rows*b.C)
	for i, xi := range x {
		mean[i%b.C] += float64(xi) / float64(b.Rows)
	}
	for i, xi := range x {
		d := float64(xi) - mean[i%b.C]
		v[i%b.C] += d * d / float64(b.Rows)
	}
	runMean, runVar := k.load(b.RunMean, kernels.Float32, b.C), k.load(b.RunVar, kernels.Float32, b.C)
	invstd := make([]float32, b.C)
	for c := range mean {
		invstd[c] = float32(1 / math.Sqrt(v[c]+b.Eps))
		runMean[c] = float32((1-b.Momentum)*float64(runMean[c]) + b.Momentum*mean[c])
		runVar[c] = float32((1-b.Momentum)*float64(runVar[c]) + b.Momentum*v[c]*float64(b.Rows)/max(float64(b.Rows)-1, 1))
	}
	k.Fake.store(b.RunMean, kernels.Float32, runMean)
	k.Fake.store(b.RunVar, kernels.Float32, runVar)
	k.Fake.store(b.Mean, kernels.Float32, narrow(mean))
	k.Fake.store(b.InvStd, kernels.Float32, invstd)
}

func (k fakeKernels) BatchNormApply(s drv.Stream, b kernels.BatchNorm) error {
	return k.give(s, fmt.Sprintf("bn_apply %v %d %d", b.Type, b.Rows, b.C), func() {
		k.normalise(b, k.load(b.Mean, kernels.Float32, b.C), k.load(b.InvStd, kernels.Float32, b.C))
	})
}

//go:norace
func (k fakeKernels) normalise(b kernels.BatchNorm, mean, invstd []float32) {
	x, gamma, beta := k.load(b.X, b.Type, b.Rows*b.C), k.load(b.Gamma, kernels.Float32, b.C), k.load(b.Beta, kernels.Float32, b.C)
	add := make([]float32, len(x))
	if b.Add != 0 {
		add = k.load(b.Add, b.Type, len(x))
	}
	for i := range x {
		c := i % b.C
		x[i] = relu(gamma[c]*invstd[c]*x[i]+(beta[c]-mean[c]*gamma[c]*invstd[c])+add[i], b.ReLU)
	}
	if b.Mask != 0 {
		m := k.memory(b.Mask, int64(len(x)/8))
		clear(m)
		for i, v := range x {
			if v > 0 {
				m[i/8] |= 1 << (i % 8)
			}
		}
	}
	k.Fake.store(b.Y, b.Type, x)
}

func (k fakeKernels) BatchNormEval(s drv.Stream, b kernels.BatchNorm) error {
	return k.give(s, fmt.Sprintf("bn_eval %v %d %d", b.Type, b.Rows, b.C), func() {
		invstd := k.load(b.RunVar, kernels.Float32, b.C)
		for i, v := range invstd {
			invstd[i] = float32(1 / math.Sqrt(float64(v)+b.Eps))
		}
		k.normalise(b, k.load(b.RunMean, kernels.Float32, b.C), invstd)
	})
}

func (k fakeKernels) BatchNormGrad(s drv.Stream, b kernels.BatchNormGrad) error {
	return k.give(s, fmt.Sprintf("bn_grad %v %d %d dx %v add %v y %v mask %v beta %v", b.Type, b.Rows, b.C, b.DX != 0, b.DAdd != 0, b.Y != 0, b.Mask != 0, b.Beta != 0), func() { k.batchNormGrad(b) })
}

//go:norace
func (k fakeKernels) batchNormGrad(b kernels.BatchNormGrad) {
	n := b.Rows * b.C
	x, dz := k.load(b.X, b.Type, n), k.load(b.DY, b.Type, n)
	gamma, mean, invstd := k.load(b.Gamma, kernels.Float32, b.C), k.load(b.Mean, kernels.Float32, b.C), k.load(b.InvStd, kernels.Float32, b.C)
	if b.Y != 0 {
		for i, y := range k.load(b.Y, b.Type, n) {
			if !(y > 0) {
				dz[i] = 0
			}
		}
	}
	if b.Mask != 0 {
		mask := k.memory(b.Mask, int64(n/8))
		for i := range dz {
			if mask[i/8]>>(i%8)&1 == 0 {
				dz[i] = 0
			}
		}
	}
	if b.Beta != 0 {
		beta := k.load(b.Beta, kernels.Float32, b.C)
		for i := range dz {
			c := i % b.C
			if y := gamma[c]*invstd[c]*x[i] + (beta[c] - mean[c]*gamma[c]*invstd[c]); !(y > 0) {
				dz[i] = 0
			}
		}
	}
	sum, dot := make([]float64, b.C), make([]float64, b.C)
	for i, d := range dz {
		c := i % b.C
		sum[c] += float64(d)
		dot[c] += float64(d) * float64((x[i]-mean[c])*invstd[c])
	}
	if b.DAdd != 0 {
		k.Fake.store(b.DAdd, b.Type, dz)
	}
	if b.DGamma != 0 {
		k.Fake.store(b.DGamma, kernels.Float32, narrow(dot))
	}
	if b.DBeta != 0 {
		k.Fake.store(b.DBeta, kernels.Float32, narrow(sum))
	}
	if b.DX != 0 {
		m := float64(b.Rows)
		for i, d := range dz {
			c := i % b.C
			dz[i] = float32(float64(gamma[c]*invstd[c]) * (float64(d) - sum[c]/m - float64((x[i]-mean[c])*invstd[c])*dot[c]/m))
		}
		k.Fake.store(b.DX, b.Type, dz)
	}
}

func (k fakeKernels) ToChannelsLast(s drv.Stream, to, from kernels.Type, n, c, pixels, padded int, dst, src drv.Ptr) error {
	return k.give(s, fmt.Sprintf("to_channels_last %v %v %d %d %d %d", to, from, n, c, pixels, padded), func() {
		in, out := k.load(src, from, n*c*pixels), make([]float32, n*pixels*padded)
		for i := range n {
			for p := range pixels {
				for j := range c {
					out[(i*pixels+p)*padded+j] = in[(i*c+j)*pixels+p]
				}
			}
		}
		k.Fake.store(dst, to, out)
	})
}

func (k fakeKernels) ToChannelsFirst(s drv.Stream, to, from kernels.Type, n, c, pixels, padded int, dst, src drv.Ptr) error {
	return k.give(s, fmt.Sprintf("to_channels_first %v %v %d %d %d %d", to, from, n, c, pixels, padded), func() {
		in, out := k.load(src, from, n*padded*pixels), make([]float32, n*pixels*c)
		for i := range n {
			for p := range pixels {
				for j := range c {
					out[(i*c+j)*pixels+p] = in[(i*pixels+p)*padded+j]
				}
			}
		}
		k.Fake.store(dst, to, out)
	})
}

func (k fakeKernels) Pixels(s drv.Stream, p kernels.Pixels) error {
	return k.give(s, fmt.Sprintf("pixels %v %d %d %d %d %d", p.Type, p.N, p.C, p.H, p.W, p.Padded), func() {
		out := make([]float32, p.N*p.H*p.W*p.Padded)
		src := k.memory(p.Src, int64(p.N*p.C*p.H*p.W))
		for n := range p.N {
			d := int32(binary.LittleEndian.Uint32(k.memory(p.Draws+drv.Ptr(4*n), 4)))
			dx, dy, flip := int(int8(d)), int(int8(d>>8)), d>>16&1 == 1
			for h := range p.H {
				for w := range p.W {
					for c := range p.C {
						from := w
						if flip {
							from = p.W - 1 - w
						}
						y, x := h+dy, from+dx
						var b uint8
						if y >= 0 && y < p.H && x >= 0 && x < p.W {
							b = src[((n*p.C+c)*p.H+y)*p.W+x]
						}
						std := p.Std[c]
						if std == 0 {
							std = 1
						}
						out[((n*p.H+h)*p.W+w)*p.Padded+c] = (float32(b)/255 - p.Mean[c]) / std
					}
				}
			}
		}
		k.Fake.store(p.Dst, p.Type, out)
	})
}

// windows calls f with each number of y and those of x in its window; NHWC.
//
//go:norace
func windows(p kernels.Pool, f func(y int, inside []int, which []int)) {
	oh, ow := p.Out()
	var inside, which []int
	for n := range p.N {
		for i := range oh {
			for j := range ow {
				for c := range p.C {
					inside, which = inside[:0], which[:0]
					for r := range p.Kernel[0] {
						for v := range p.Kernel[1] {
							h, w := i*p.Stride[0]-p.Pad[0]+r, j*p.Stride[1]-p.Pad[1]+v
							if h >= 0 && h < p.H && w >= 0 && w < p.W {
								inside, which = append(inside, ((n*p.H+h)*p.W+w)*p.C+c), append(which, r*p.Kernel[1]+v)
							}
						}
					}
					f(((n*oh+i)*ow+j)*p.C+c, inside, which)
				}
			}
		}
	}
}

func poolSizes(p kernels.Pool) (x, y int) {
	oh, ow := p.Out()
	return p.N * p.H * p.W * p.C, p.N * oh * ow * p.C
}

func (k fakeKernels) MaxPool(s drv.Stream, p kernels.Pool, y, choice, x drv.Ptr) error {
	return k.give(s, fmt.Sprintf("max_pool %+v", p), func() {
		nx, ny := poolSizes(p)
		in, out, chosen := k.load(x, p.Type, nx), make([]float32, ny), make([]float32, ny)
		windows(p, func(o int, inside, which []int) {
			best := 0
			for i, at := range inside {
				if in[at] > in[inside[best]] {
					best = i
				}
			}
			out[o], chosen[o] = in[inside[best]], float32(which[best])
		})
		k.Fake.store(y, p.Type, out)
		if choice != 0 {
			k.Fake.store(choice, kernels.Uint8, chosen)
		}
	})
}

func (k fakeKernels) MaxPoolGrad(s drv.Stream, p kernels.Pool, dx, choice, dy drv.Ptr) error {
	return k.give(s, fmt.Sprintf("max_pool_grad %+v", p), func() {
		nx, ny := poolSizes(p)
		in, chosen, out := k.load(dy, p.Type, ny), k.load(choice, kernels.Uint8, ny), make([]float32, nx)
		windows(p, func(o int, inside, which []int) {
			for i, at := range inside {
				if which[i] == int(chosen[o]) {
					out[at] += in[o]
				}
			}
		})
		k.Fake.store(dx, p.Type, out)
	})
}

func average(p kernels.Pool, inside []int) float32 {
	if p.ExcludePad {
		return float32(len(inside))
	}
	return float32(p.Kernel[0] * p.Kernel[1])
}

func (k fakeKernels) AvgPool(s drv.Stream, p kernels.Pool, y, x drv.Ptr) error {
	return k.give(s, fmt.Sprintf("avg_pool %+v", p), func() {
		nx, ny := poolSizes(p)
		in, out := k.load(x, p.Type, nx), make([]float32, ny)
		windows(p, func(o int, inside, _ []int) {
			for _, at := range inside {
				out[o] += in[at] / average(p, inside)
			}
		})
		k.Fake.store(y, p.Type, out)
	})
}

func (k fakeKernels) AvgPoolGrad(s drv.Stream, p kernels.Pool, dx, dy drv.Ptr) error {
	return k.give(s, fmt.Sprintf("avg_pool_grad %+v", p), func() {
		nx, ny := poolSizes(p)
		in, out := k.load(dy, p.Type, ny), make([]float32, nx)
		windows(p, func(o int, inside, _ []int) {
			for _, at := range inside {
				out[at] += in[o] / average(p, inside)
			}
		})
		k.Fake.store(dx, p.Type, out)
	})
}

func (k fakeKernels) GlobalAvgPool(s drv.Stream, t, yType kernels.Type, n, pixels, c int, y, x drv.Ptr) error {
	return k.give(s, fmt.Sprintf("global_avg_pool %v %v %d %d %d", t, yType, n, pixels, c), func() {
		out := make([]float32, n*c)
		for i, v := range k.load(x, t, n*pixels*c) {
			out[i/c/pixels*c+i%c] += v / float32(pixels)
		}
		k.Fake.store(y, yType, out)
	})
}

func (k fakeKernels) GlobalAvgPoolGrad(s drv.Stream, t, dyType kernels.Type, n, pixels, c int, dx, dy drv.Ptr) error {
	return k.give(s, fmt.Sprintf("global_avg_pool_grad %v %v %d %d %d", t, dyType, n, pixels, c), func() {
		in, out := k.load(dy, dyType, n*c), make([]float32, n*pixels*c)
		for i := range out {
			out[i] = in[i/c/pixels*c+i%c] / float32(pixels)
		}
		k.Fake.store(dx, t, out)
	})
}

func (k fakeKernels) Embedding(s drv.Stream, to, from kernels.Type, n, rows, dim int, y, w, ids, bad drv.Ptr) error {
	return k.give(s, fmt.Sprintf("embedding %v %v %d %d %d", to, from, n, rows, dim), func() {
		table, out := k.load(w, from, rows*dim), make([]float32, 0, n*dim)
		for _, id := range k.load(ids, kernels.Int32, n) {
			out = append(out, table[int(id)*dim:(int(id)+1)*dim]...)
		}
		k.Fake.store(y, to, out)
	})
}

func (k fakeKernels) EmbeddingGrad(s drv.Stream, t kernels.Type, n, rows, dim int, dw, ids, dy drv.Ptr) error {
	return k.give(s, fmt.Sprintf("embedding_grad %v %d %d %d", t, n, rows, dim), func() {
		in, out := k.load(dy, t, n*dim), make([]float32, rows*dim)
		for i, id := range k.load(ids, kernels.Int32, n) {
			for j := range dim {
				out[int(id)*dim+j] += in[i*dim+j]
			}
		}
		k.Fake.store(dw, kernels.Float32, out)
	})
}

func softmaxRow(x []float32) (p []float64, logSum float64) {
	top := math.Inf(-1)
	for _, v := range x {
		top = max(top, float64(v))
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	logSum = math.Log(sum) + top
	for _, v := range x {
		p = append(p, math.Exp(float64(v)-logSum))
	}
	return p, logSum
}

func (k fakeKernels) Softmax(s drv.Stream, t kernels.Type, rows, classes int, y, x drv.Ptr) error {
	return k.give(s, fmt.Sprintf("softmax %v %d %d", t, rows, classes), func() {
		in := k.load(x, t, rows*classes)
		for r := range rows {
			p, _ := softmaxRow(in[r*classes : (r+1)*classes])
			copy(in[r*classes:], narrow(p))
		}
		k.Fake.store(y, t, in)
	})
}

func (k fakeKernels) SoftmaxGrad(s drv.Stream, t kernels.Type, rows, classes int, dx, y, dy drv.Ptr) error {
	return k.give(s, fmt.Sprintf("softmax_grad %v %d %d", t, rows, classes), func() {
		p, g := k.load(y, t, rows*classes), k.load(dy, t, rows*classes)
		for r := 0; r < len(p); r += classes {
			var dot float32
			for i := r; i < r+classes; i++ {
				dot += p[i] * g[i]
			}
			for i := r; i < r+classes; i++ {
				p[i] *= g[i] - dot
			}
		}
		k.Fake.store(dx, t, p)
	})
}

func (k fakeKernels) CrossEntropy(s drv.Stream, c kernels.CrossEntropy) error {
	return k.give(s, fmt.Sprintf("cross_entropy %v %d %d loss %v dx %v", c.Type, c.Rows, c.Classes, c.Loss != 0, c.DX != 0), func() {
		x, labels := k.load(c.X, c.Type, c.Rows*c.Classes), k.load(c.Labels, kernels.Int32, c.Rows)
		count, loss := 0, 0.0
		for _, l := range labels {
			if l >= 0 {
				count++
			}
		}
		dx := make([]float32, len(x))
		for r, l := range labels {
			if l < 0 {
				continue
			}
			p, logSum := softmaxRow(x[r*c.Classes : (r+1)*c.Classes])
			s := float64(c.Smoothing)
			loss += logSum - (1-s)*float64(x[r*c.Classes+int(l)])
			for j := range p {
				loss -= s / float64(c.Classes) * float64(x[r*c.Classes+j])
				p[j] -= s / float64(c.Classes)
			}
			p[int(l)] -= 1 - s
			for j, v := range p {
				dx[r*c.Classes+j] = float32(v * float64(k.number(c.DLoss, 1)) / float64(max(count, 1)))
			}
		}
		if c.Loss != 0 {
			k.memory(c.Workspace, int64(4*c.Rows))
			k.Fake.store(c.Loss, kernels.Float32, []float32{float32(loss / float64(max(count, 1)))})
		}
		if c.DX != 0 {
			k.Fake.store(c.DX, c.Type, dx)
		}
	})
}

func (k fakeKernels) MSE(s drv.Stream, t kernels.Type, n int64, loss, x, target, workspace drv.Ptr) error {
	return k.give(s, fmt.Sprintf("mse %v %d", t, n), func() {
		a, b, sum := k.load(x, t, int(n)), k.load(target, t, int(n)), 0.0
		for i := range a {
			d := float64(a[i] - b[i])
			sum += d * d
		}
		k.memory(workspace, k.MSEWorkspace())
		k.Fake.store(loss, kernels.Float32, []float32{float32(sum / float64(n))})
	})
}

func (k fakeKernels) MSEGrad(s drv.Stream, t kernels.Type, n int64, dx, x, target, dloss drv.Ptr, scale float32) error {
	return k.each(s, "mse_grad", t, t, n, dx, func() eachElement {
		d := k.number(dloss, 1)
		return func(_ int, a, b float32) float32 { return scale * d * 2 / float32(n) * (a - b) }
	}, x, target)
}

type fakeTensor = kernels.Tensor

func (k fakeKernels) NewTable(_ drv.Stream, tensors []kernels.Tensor) (*kernels.Table, error) {
	t := new(kernels.Table)
	k.tables[t] = tensors
	return t, nil
}

func (k fakeKernels) FreeTable(t *kernels.Table) error { delete(k.tables, t); return nil }

// forms goes over the numbers of a tensor: where each lies in the two forms.
func forms(t kernels.Tensor, f func(rowMajor, channelLast int)) {
	area := t.R * t.S
	for i := range t.K {
		for c := range t.C {
			for p := range area {
				f((i*t.C+c)*area+p, (i*area+p)*t.PadC+c)
			}
		}
	}
}

func (k fakeKernels) Pack(s drv.Stream, t *kernels.Table) error {
	return k.give(s, fmt.Sprintf("pack %d", len(k.tables[t])), func() {
		for _, e := range k.tables[t] {
			in, out := k.load(e.RowMajor, kernels.Float32, e.K*e.C*e.R*e.S), make([]float32, e.PadK*e.PadC*e.R*e.S)
			forms(e, func(a, b int) { out[b] = in[a] })
			k.Fake.store(e.ChannelLast, e.Type, out)
		}
	})
}

func (k fakeKernels) Unpack(s drv.Stream, t *kernels.Table, constant float32, factor, found drv.Ptr) error {
	return k.give(s, fmt.Sprintf("unpack %d", len(k.tables[t])), func() {
		for _, e := range k.tables[t] {
			in, out := k.load(e.ChannelLast, e.Type, e.PadK*e.PadC*e.R*e.S), make([]float32, e.K*e.C*e.R*e.S)
			f := k.number(factor, 1)
			forms(e, func(a, b int) {
				out[a] = in[b] * constant * f
				k.look(out[a], found)
			})
			k.Fake.store(e.RowMajor, kernels.Float32, out)
		}
	})
}

type fakeLibrary struct{ *Fake }

func (l fakeLibrary) Close() error { return nil }
func (l fakeLibrary) settled()     {}

func (l fakeLibrary) apart(cudnn.Conv, convPlan, convPlan, func(s drv.Stream, y, a, b drv.Ptr) error) (bool, error) {
	return l.SumsApart, nil
}

func (l fakeLibrary) norm(cudnn.Norm, int64, func(drv.Stream, drv.Ptr, cudnn.NormArgs) error) (normPlan, error) {
	return nil, nil
}

func (l fakeLibrary) normGrad(cudnn.NormGrad, int64, func(drv.Stream, drv.Ptr, cudnn.NormGradArgs) error) (normGradPlan, error) {
	return nil, nil
}

type fakeConv struct {
	*Fake
	pass cudnn.Op
	c    cudnn.Conv
}

func (l fakeLibrary) conv(pass cudnn.Op, c cudnn.Conv) (convPlan, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Accumulate && l.NoSums {
		return nil, cudnn.ErrNotSupported
	}
	if pass == cudnn.BackwardWeight && l.HalfGradients {
		c.Weight = c.In
	}
	if c.In != cudnn.Float32 && (c.C%8 != 0 || c.K%8 != 0) {
		return nil, fmt.Errorf("fake: %v: channels are no multiple of 8: %w", c, cudnn.ErrNotSupported)
	}
	return fakeConv{l.Fake, pass, c}, nil
}

func (p fakeConv) Conv() cudnn.Conv { return p.c }
func (p fakeConv) Workspace() int64 { return 100 }
func (p fakeConv) Engine() string   { return "fake" }
func (p fakeConv) Close() error     { return nil }

func fromDNN(t cudnn.DType) kernels.Type {
	switch t {
	case cudnn.BFloat16:
		return kernels.BFloat16
	case cudnn.Float16:
		return kernels.Float16
	}
	return kernels.Float32
}

func (p fakeConv) Run(s drv.Stream, workspace, x, w, y drv.Ptr) error {
	c := p.c
	oh, ow := c.OutSize()
	return p.give(s, fmt.Sprintf("%v %v", p.pass, c), func() {
		overwrite(p.memory(workspace, p.Workspace()), 0xCD)
		nx, nw, ny := c.N*c.H*c.W*c.C, c.K*c.R*c.S*c.C, c.N*oh*ow*c.K
		xs, ws, ys := make([]float32, nx), make([]float32, nw), make([]float32, ny)
		if p.pass != cudnn.BackwardData || c.Accumulate {
			xs = p.load(x, fromDNN(c.In), nx)
		}
		if p.pass != cudnn.BackwardWeight {
			ws = p.load(w, fromDNN(c.Weight), nw)
		}
		if p.pass != cudnn.Forward {
			ys = p.load(y, fromDNN(c.Out), ny)
		}
		p.convolve(xs, ws, ys)
		switch p.pass {
		case cudnn.Forward:
			p.store(y, fromDNN(c.Out), ys)
		case cudnn.BackwardData:
			p.store(x, fromDNN(c.In), xs)
		default:
			p.store(w, fromDNN(c.Weight), ws)
		}
	})
}

// convolve adds to xs, ws or ys what its pass makes of the other two.
//
//go:norace
func (p fakeConv) convolve(xs, ws, ys []float32) {
	c := p.c
	oh, ow := c.OutSize()
	for n := range c.N {
		for i := range oh {
			for j := range ow {
				for r := range c.R {
					for v := range c.S {
						h, u := i*c.Stride[0]-c.Pad[0]+r, j*c.Stride[1]-c.Pad[1]+v
						if h < 0 || h >= c.H || u < 0 || u >= c.W {
							continue
						}
						for o := range c.K {
							yi := ((n*oh+i)*ow+j)*c.K + o
							xi, wi := ((n*c.H+h)*c.W+u)*c.C, ((o*c.R+r)*c.S+v)*c.C
							for q := range c.C {
								switch p.pass {
								case cudnn.Forward:
									ys[yi] += xs[xi+q] * ws[wi+q]
								case cudnn.BackwardData:
									xs[xi+q] += ys[yi] * ws[wi+q]
								default:
									ws[wi+q] += ys[yi] * xs[xi+q]
								}
							}
						}
					}
				}
			}
		}
	}
}

type fakeProduct struct {
	*Fake
	m product
}

func (l fakeLibrary) matmul(m product) (productPlan, error) { return fakeProduct{l.Fake, m}, nil }

func (p fakeProduct) Workspace() int64 { return 10 }
func (p fakeProduct) Close() error     { return nil }

func (p fakeProduct) Run(s drv.Stream, workspace, a, b, c, bias drv.Ptr) error {
	m := p.m
	return p.give(s, fmt.Sprintf("product %+v", m), func() {
		p.memory(workspace, p.Workspace())
		added := make([]float32, m.N)
		if m.Bias {
			added = p.load(bias, kernels.Float32, m.N)
		}
		p.store(c, m.Out, m.multiplied(p.load(a, m.In, m.M*m.K), p.load(b, m.In, m.K*m.N), added))
	})
}

//go:norace
func (m product) multiplied(x, y, bias []float32) []float32 {
	out := make([]float32, m.M*m.N)
	for i := range m.M {
		for j := range m.N {
			sum := 0.0
			for q := range m.K {
				xi, yi := i*m.K+q, q*m.N+j
				if m.TransA {
					xi = q*m.M + i
				}
				if m.TransB {
					yi = j*m.K + q
				}
				sum += float64(x[xi]) * float64(y[yi])
			}
			out[i*m.N+j] = relu(float32(sum+float64(bias[j])), m.ReLU)
		}
	}
	return out
}
