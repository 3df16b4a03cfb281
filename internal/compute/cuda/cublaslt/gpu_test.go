//go:build gpu

package cublaslt

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
)

// onGPU is a bench on the GPU.
func onGPU(t *testing.T) *bench {
	gputest.Begin(t)
	return newBench(t)
}

// Every algorithm that the library offers gives the product's numbers, over poisoned memory and
// between guards.
func TestGPUOps(t *testing.T) {
	b := onGPU(t)
	for _, dtype := range []DType{Float32, BFloat16, Float16} {
		gputest.Check(t, fmt.Sprintf("products, all algorithms %v", dtype), func(t *testing.T) {
			b.T = t
			asked, ran := 0, 0
			for _, m := range products() {
				if m.In != dtype {
					continue
				}
				var all []*Plan
				err := b.ctx.Do(func() (err error) { all, err = b.h.Plans(m); return })
				asked++
				must := m.M%8 == 0 && m.N%8 == 0 && m.K%8 == 0 && !m.Bias && !m.BiasGrad && !m.ReLU && !m.Accumulate
				if errors.Is(err, ErrNotSupported) && !must {
					gputest.Note("%v", err)
					continue
				}
				gputest.Must(t, err)
				ran += len(all)
				b.equalsPlainLoops(rand.New(rand.NewPCG(1, 2)), m, all)
			}
			gputest.Note("%d products, %d algorithms", asked, ran)
			gputest.Must(t, b.memory.Release())
		})
	}
	b.T = t
}

// What the library's documentation leaves open. No answer is wrong.
func TestGPUFacts(t *testing.T) {
	b := onGPU(t)
	gputest.Measured(t, "cuBLASLt", 0, "", "%v from %s", b.h.Version(), b.h.Path())
	for _, f := range Facts() {
		name := "cuBLASLt: " + f.Name
		gputest.Check(t, name, func(t *testing.T) {
			gputest.Must(t, b.ctx.Do(func() error {
				yes, detail, err := f.Check(b.h)
				if err == nil {
					gputest.Answer(t, name, yes, f.Holds, f.Otherwise, detail)
				}
				return err
			}))
		})
	}
}

// How fast the GPU multiplies large matrices.
func TestGPUCeilings(t *testing.T) {
	b := onGPU(t)
	for _, c := range []struct {
		name string
		typ  DType
		tf32 bool
	}{{"bfloat16", BFloat16, false}, {"float16", Float16, false}, {"tf32", Float32, true}, {"float32", Float32, false}} {
		name := "product 8192³, " + c.name
		gputest.Check(t, name, func(t *testing.T) {
			b.T = t
			size, repeat := 8192, 10
			if c.typ == Float32 && !c.tf32 {
				size = 4096
			}
			if testing.Short() {
				size, repeat = 16, 1
			}
			m := Matmul{M: size, N: size, K: size, In: c.typ, Out: c.typ, TF32: c.tf32}
			bytes := int64(size) * int64(size) * c.typ.Size()
			x, w, y := b.room(bytes), b.room(bytes), b.room(bytes)
			r := rand.New(rand.NewPCG(3, 3))

			// What is multiplied decides how much power that takes.
			part := make([]float32, min(1<<21, size*size))
			for i := range part {
				part[i] = float32(r.NormFloat64())
			}
			noise := encode(c.typ, part)
			gputest.Must(t, errors.Join(b.memory.Repeat(x, bytes, noise), b.memory.Repeat(w, bytes, noise)))
			var all []*Plan
			b.do(func() (err error) { all, err = b.h.Plans(m); return })
			var best time.Duration
			engine := ""
			for _, p := range all {
				if space := b.room(p.Workspace()); best == 0 || gputest.Context(t).Err() == nil {
					if took := gputest.Spell(t, b.ctx, b.s, repeat, func() error { return p.Run(b.s, space, x, w, 0, y) }); best == 0 || took < best {
						best, engine = took, p.Engine()
					}
				}
				b.do(p.Close)
			}
			gputest.Must(t, b.memory.Release())
			n := float64(size)
			gputest.Measured(t, name, 2*n*n*n/best.Seconds()/1e12, "TFLOP/s", "size %d, %d algorithms, the best in %v: %s", size, len(all), best, engine)
		})
	}
	b.T = t
}
