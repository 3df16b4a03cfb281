package cublaslt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
)

// A bench is a machine, a fake one but in tests of a GPU, with an open library and a stream.
type bench struct {
	*testing.T
	m      *fake.Machine
	ctx    *drv.Context
	h      *Handle
	s      drv.Stream
	memory *gputest.Memory
}

// newBench opens the library on the first fake GPU. At the test's end nothing of the library may be
// left over.
func newBench(t *testing.T, settings ...any) *bench {
	t.Helper()
	b := &bench{T: t, m: fake.New(t)}
	b.m.Set("poison", 0xff) // memory that nobody wrote is NaN
	for i := 0; i < len(settings); i += 2 {
		b.m.Set(settings[i].(string), int64(settings[i+1].(int)))
	}
	b.ctx = b.m.Context(0)
	lib, err := b.m.Search().Open(dl.CuBLASLt)
	if err != nil {
		t.Fatal(err)
	}
	b.do(func() error {
		b.h, err = Open(lib, b.ctx)
		if err == nil {
			b.s, err = b.ctx.NewStream(0)
		}
		return err
	})
	b.memory, err = gputest.NewMemory(b.ctx, b.s)
	gputest.Must(t, err)
	t.Cleanup(func() {
		if gputest.On() && t.Failed() {
			// What a lost GPU holds goes with the process.
			return
		}
		b.do(b.memory.Close)
		b.do(func() error { return errors.Join(b.ctx.DestroyStream(b.s), b.h.Close(), b.h.Close()) })
		if n := b.m.Count("cublaslt_objects"); n != 0 || b.h.alive != 0 {
			t.Errorf("%d objects and %d questions were not destroyed", n, b.h.alive)
		}
	})
	return b
}

func (b *bench) do(f func() error) {
	b.Helper()
	gputest.Must(b, b.ctx.Do(f))
}

// put makes device memory with these numbers in a type. It goes with the test.
func (b *bench) put(t DType, numbers []float32) drv.Ptr {
	b.Helper()
	data := encode(t, numbers)
	p := b.room(int64(len(data)))
	gputest.Must(b, b.memory.Write(p, data))
	return p
}

func encode(t DType, numbers []float32) []byte {
	var data []byte
	for _, v := range numbers {
		if t == Float32 {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		} else {
			data = binary.LittleEndian.AppendUint16(data, gputest.Narrow(t == BFloat16, v))
		}
	}
	return data
}

// room is device memory with nothing in it, no better aligned than it must be.
func (b *bench) room(bytes int64) drv.Ptr {
	b.Helper()
	if bytes == 0 {
		return 0
	}
	p, err := b.memory.Room(bytes, alignment)
	gputest.Must(b, err)
	return p
}

func (b *bench) get(t DType, p drv.Ptr, n int) []float32 {
	b.Helper()
	data, err := b.memory.Read(p, int64(n)*t.Size())
	gputest.Must(b, err)
	numbers := make([]float32, n)
	for i := range numbers {
		if t == Float32 {
			numbers[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		} else {
			numbers[i] = gputest.Wide(t == BFloat16, binary.LittleEndian.Uint16(data[2*i:]))
		}
	}
	return numbers
}

// random gives numbers that bfloat16 has, between -1 and 1.
func random(r *rand.Rand, n int) []float32 {
	numbers := make([]float32, n)
	for i := range numbers {
		numbers[i] = float32(r.IntN(257)-128) / 128
	}
	return numbers
}

func near(t *testing.T, what string, got, want []float32, tolerance float64) {
	t.Helper()
	var scale float64
	for _, w := range want {
		scale = max(scale, math.Abs(float64(w)))
	}
	worst := 0.0
	for i := range want {
		d := math.Abs(float64(got[i]) - float64(want[i]))
		if !(d <= tolerance*scale) && !gputest.On() {
			t.Fatalf("%s: element %d: got %v, want %v within %g", what, i, got[i], want[i], tolerance*scale)
		}
		if d != 0 && gputest.Worse(d/(tolerance*scale), worst) {
			worst = d / (tolerance * scale)
		}
	}
	if gputest.On() {
		gputest.Within(t, "", worst, 1, "of rounding", what)
	}
}

// plain is a product in plain loops, and the vector of BiasGrad.
func plain(m Matmul, a, b, bias, d []float32) (out, grad []float32) {
	for i := range m.M {
		var g float64
		for j := range m.N {
			var sum float64
			for k := range m.K {
				x, y := a[(i*m.K+k)%len(a)], b[(k*m.N+j)%len(b)]
				if m.TransA {
					x = a[k*m.M+i]
				}
				if m.TransB {
					y = b[j*m.K+k]
				}
				sum += float64(x) * float64(y)
				if j == 0 {
					g += float64(x)
				}
			}
			if m.Accumulate {
				sum += float64(d[i*m.N+j])
			}
			if m.Bias {
				sum += float64(bias[j])
			}
			if m.ReLU {
				sum = max(sum, 0)
			}
			out = append(out, float32(sum))
		}
		grad = append(grad, float32(g))
	}
	return out, grad
}

// products are questions with all that may follow a product, in all types.
func products() []Matmul {
	gradient := func(batch, in, out int, t, grad DType) Matmul {
		m := LinearGradWeight(batch, in, out, t, grad)
		m.BiasGrad = true
		return m
	}
	all := []Matmul{
		Linear(5, 7, 3, BFloat16),
		Linear(4, 16, 10, Float32),
		LinearGradInput(5, 7, 3, BFloat16),
		LinearGradWeight(5, 7, 3, BFloat16, Float32),
		LinearGradWeight(6, 8, 2, Float32, Float32),
		gradient(5, 7, 3, BFloat16, BFloat16),
		gradient(9, 4, 6, Float32, Float32),
		{M: 3, N: 5, K: 4},
		{M: 3, N: 5, K: 4, TransA: true, TransB: true, Accumulate: true},
		{M: 8, N: 2, K: 3, ReLU: true, In: BFloat16, Out: Float32},
		{M: 2, N: 9, K: 5, Bias: true, ReLU: true, Accumulate: true},
		{M: 1, N: 1, K: 1, Bias: true},
	}
	for _, t := range []DType{Float32, BFloat16, Float16} {
		bare := Linear(24, 40, 16, t)
		bare.Bias = false
		all = append(all, bare, LinearGradInput(24, 40, 16, t), LinearGradWeight(24, 40, 16, t, Float32))
	}
	return all
}

// equalsPlainLoops holds every algorithm for a product against plain loops.
func (b *bench) equalsPlainLoops(r *rand.Rand, m Matmul, all []*Plan) {
	av, bv, biasv, dv := random(r, m.M*m.K), random(r, m.K*m.N), random(r, max(m.M, m.N)), random(r, m.M*m.N)

	// float32 is compared with all its digits.
	if m.In == Float32 {
		for i := range av {
			av[i] += r.Float32() / 128
		}
	}
	want, wantGrad := plain(m, av, bv, biasv, dv)
	for _, p := range all {
		a, w, d, workspace := b.put(m.In, av), b.put(m.In, bv), b.put(m.Out, dv), b.room(p.Workspace())
		var bias drv.Ptr
		switch {
		case m.Bias:
			bias = b.put(m.BiasType, biasv)
		case m.BiasGrad:
			bias = b.room(int64(m.M) * m.BiasType.Size())
		}
		b.do(func() error { return errors.Join(p.Run(b.s, workspace, a, w, bias, d), b.ctx.Synchronize(b.s)) })
		tolerance := map[DType]float64{Float32: 1e-5, BFloat16: 1.0 / 256, Float16: 1.0 / 2048}[m.Out]
		near(b.T, fmt.Sprintf("%s for %v", p.Engine(), m), b.get(m.Out, d, m.M*m.N), want, tolerance)
		if m.BiasGrad {
			near(b.T, fmt.Sprintf("bias gradient of %s for %v", p.Engine(), m), b.get(m.BiasType, bias, m.M), wantGrad, tolerance)
		}
		b.do(p.Close)
		b.do(p.Close) // again is harmless
	}
}

// Every algorithm that is offered gives the product's numbers, row-major, with what follows it.
func TestProductsEqualPlainLoops(t *testing.T) {
	for _, seed := range []int{0, 1, 9} {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			b := newBench(t, "seed", seed)
			r := rand.New(rand.NewPCG(1, 2))
			for _, m := range products() {
				var all []*Plan
				b.do(func() (err error) { all, err = b.h.Plans(m); return })
				var names []string
				for _, p := range all {
					names = append(names, p.Engine())
				}
				if got, want := strings.Join(names, ", "), "algo0 tile20 splitk4, algo3 tile20 splitk1"; got != want {
					t.Errorf("%v: algorithms: got %s, want %s", m, got, want)
				}
				b.equalsPlainLoops(r, m, all)
			}
		})
	}
}

// Float32 loses no digits unless TF32 is asked for, and then it does.
func TestFloat32IsExactUnlessTF32(t *testing.T) {
	b := newBench(t)
	m := Matmul{M: 4, N: 4, K: 8}
	r := rand.New(rand.NewPCG(3, 4))
	av, bv := make([]float32, 32), make([]float32, 32)
	for i := range av {
		av[i], bv[i] = r.Float32(), r.Float32()
	}
	want, _ := plain(m, av, bv, nil, nil)
	for _, m.TF32 = range []bool{false, true} {
		b.do(func() error {
			all, err := b.h.Plans(m)
			if err != nil {
				return err
			}
			p := all[0]
			a, w, d, workspace := b.put(Float32, av), b.put(Float32, bv), b.room(64), b.room(p.Workspace())
			if err := p.Run(b.s, workspace, a, w, 0, d); err != nil {
				return err
			}
			var worst float64
			for i, got := range b.get(Float32, d, 16) {
				worst = max(worst, math.Abs(float64(got-want[i])))
			}
			if (worst > 1e-5) != m.TF32 {
				t.Errorf("TF32 %v: off by %g", m.TF32, worst)
			}
			return errors.Join(all[0].Close(), all[1].Close())
		})
	}
}

// What no product can be is an error that names it; what the library does not do is
// ErrNotSupported; Run names the bad operand.
func TestBadProductsAreErrors(t *testing.T) {
	b := newBench(t)
	good := Linear(4, 8, 8, BFloat16)
	for _, k := range []struct {
		change func(*Matmul)
		want   string
		none   bool
	}{
		{func(m *Matmul) { m.M = 0 }, "M is 0, want 1", false},
		{func(m *Matmul) { m.K = -3 }, "K is -3, want 1", false},
		{func(m *Matmul) { m.In = 5 }, "In has type DType(5)", false},
		{func(m *Matmul) { m.Out = Float16 }, "Out is float16, want float32 or In", false},
		{func(m *Matmul) { m.BiasGrad = true }, "BiasGrad is set with Bias", false},
		{func(m *Matmul) { m.BiasType = Float32 }, "CUBLAS_STATUS_NOT_SUPPORTED (15)", true},
	} {
		m := good
		k.change(&m)
		b.do(func() error {
			_, err := b.h.Plans(m)
			if err == nil || !strings.Contains(err.Error(), k.want) || !strings.Contains(err.Error(), m.String()) || errors.Is(err, ErrNotSupported) != k.none {
				t.Errorf("%v: got error %v, want %q", m, err, k.want)
			}
			return nil
		})
	}
	b.do(func() error {
		all, err := b.h.Plans(good)
		if err != nil {
			return err
		}
		a, w, bias, d, workspace := b.room(64), b.room(128), b.room(16), b.room(64), b.room(all[0].Workspace())
		for _, k := range []struct {
			workspace, a, b, bias, d drv.Ptr
			want                     string
		}{
			{workspace, 0, w, bias, d, "A lies at 0x0"},
			{workspace, a, w + 2, bias, d, "B lies at"},
			{workspace, a, w, 0, d, "the bias lies at 0x0"},
			{workspace, a, w, bias, d + 4, "D lies at"},
			{0, a, w, bias, d, "there is no workspace"},
		} {
			if err := all[0].Run(b.s, k.workspace, k.a, k.b, k.bias, k.d); err == nil || !strings.Contains(err.Error(), k.want) || !strings.Contains(err.Error(), good.String()) {
				t.Errorf("got error %v, want %q", err, k.want)
			}
		}
		err = errors.Join(all[0].Close(), all[1].Close())
		if err := all[0].Run(b.s, workspace, a, w, bias, d); err == nil || !strings.Contains(err.Error(), "is closed") {
			t.Errorf("a closed plan: got error %v", err)
		}
		return err
	})
	b.m.Set("cublaslt_no_algorithms", 1)
	b.do(func() error {
		if _, err := b.h.Plans(good); !errors.Is(err, ErrNotSupported) {
			t.Errorf("no algorithms: got error %v, want ErrNotSupported", err)
		}
		return nil
	})
}

// A library that is too old is refused with both versions.
func TestOpenRefusesOldVersions(t *testing.T) {
	m := fake.New(t)
	m.Set("cublaslt_version", 110805)
	ctx := m.Context(0)
	lib, err := m.Search().Open(dl.CuBLASLt)
	if err != nil {
		t.Fatal(err)
	}
	err = ctx.Do(func() error { _, err := Open(lib, ctx); return err })
	if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "got 11.8.5, want 12.0.0") {
		t.Errorf("got error %v, want ErrVersion with both versions", err)
	}
}

// A product that ran once may be captured, and a launch works on what is in memory then.
func TestProductsMayBeCaptured(t *testing.T) {
	b := newBench(t, "seed", 1)
	m := Matmul{M: 2, N: 3, K: 4, Bias: true}
	r := rand.New(rand.NewPCG(5, 6))
	av, bv, biasv, next := random(r, 8), random(r, 12), random(r, 3), random(r, 8)
	a, w, bias, d, other := b.put(Float32, av), b.put(Float32, bv), b.put(Float32, biasv), b.room(24), b.put(Float32, next)
	var all []*Plan
	b.do(func() (err error) { all, err = b.h.Plans(m); return })
	workspace := b.room(all[0].Workspace())
	var exec drv.GraphExec
	b.do(func() error {
		run := func() error { return all[0].Run(b.s, workspace, a, w, bias, d) }
		if err := errors.Join(run(), b.ctx.BeginCapture(b.s), run()); err != nil {
			return err
		}
		g, err := b.ctx.EndCapture(b.s)
		if err != nil {
			return err
		}
		if exec, err = b.ctx.Instantiate(g); err != nil {
			return err
		}
		return errors.Join(b.ctx.CopyOnDevice(a, other, 32, b.s), b.ctx.GraphLaunch(exec, b.s), b.ctx.DestroyGraph(g))
	})
	want, _ := plain(m, next, bv, biasv, nil)
	near(t, "captured", b.get(Float32, d, 6), want, 1e-5)
	b.do(func() error { return errors.Join(b.ctx.DestroyGraphExec(exec), all[0].Close(), all[1].Close()) })
}

// Each open question about the library is answered on a machine with it, here on the fake one.
func TestFactsCanBeFoundOut(t *testing.T) {
	b := newBench(t)
	not := ""
	for _, f := range Facts() {
		b.do(func() error {
			holds, detail, err := f.Check(b.h)
			if detail == "" {
				t.Errorf("%s: no detail", f.Name)
			}
			if !holds {
				not += f.Name + "; "
			}
			return err
		})
	}
	if want := "bias in float32; "; not != want {
		t.Errorf("facts that do not hold on the fake library: got %q, want %q", not, want)
	}
}
