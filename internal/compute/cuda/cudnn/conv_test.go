package cudnn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
)

// window calls f for all elements of x, w and y that meet.
func window(c Conv, f func(x, w, y int)) {
	p, q := c.OutSize()
	for n := range c.N {
		for i := range p {
			for j := range q {
				for k := range c.K {
					for r := range c.R {
						for s := range c.S {
							h, w := i*c.Stride[0]-c.Pad[0]+r, j*c.Stride[1]-c.Pad[1]+s
							if h < 0 || h >= c.H || w < 0 || w >= c.W {
								continue
							}
							for ch := range c.C {
								f(((n*c.H+h)*c.W+w)*c.C+ch, ((k*c.R+r)*c.S+s)*c.C+ch, ((n*p+i)*q+j)*c.K+k)
							}
						}
					}
				}
			}
		}
	}
}

// plain is the pass in plain loops, from what it reads.
func plain(op Op, c Conv, x, w, y []float32) []float32 {
	sizes := counts(c)
	sums := make([]float64, sizes[map[Op]int{Forward: 2, BackwardData: 0, BackwardWeight: 1}[op]])
	window(c, func(i, j, k int) {
		switch op {
		case Forward:
			sums[k] += float64(x[i]) * float64(w[j])
		case BackwardData:
			sums[i] += float64(w[j]) * float64(y[k])
		case BackwardWeight:
			sums[j] += float64(x[i]) * float64(y[k])
		}
	})
	out := make([]float32, len(sums))
	for i, v := range sums {
		out[i] = float32(v)
	}
	return out
}

// counts are the elements of x, w and y.
func counts(c Conv) [3]int {
	x, w, y := c.sizes()
	return [3]int{int(x / c.In.Size()), int(w / c.Weight.Size()), int(y / c.Out.Size())}
}

// passData is one question with numbers: what the pass reads is filled, what it writes is NaN.
type passData struct {
	op      Op
	c       Conv
	types   [3]DType
	numbers [3][]float32
	p       [3]drv.Ptr
	result  int
}

func newPass(b *bench, r *rand.Rand, op Op, c Conv) *passData {
	d := &passData{op: op, c: c, types: [3]DType{c.In, c.Weight, c.Out}, result: map[Op]int{Forward: 2, BackwardData: 0, BackwardWeight: 1}[op]}
	for i, n := range counts(c) {
		if i == d.result && !c.Accumulate {
			d.p[i] = b.room(int64(n) * d.types[i].Size())
			continue
		}
		d.numbers[i] = random(r, d.types[i], n)
		d.p[i] = b.put(d.types[i], d.numbers[i])
	}
	return d
}

func (d *passData) run(b *bench, p *Plan) []float32 {
	b.Helper()
	numbers, err := d.try(b, p)
	gputest.Must(b, err)
	return numbers
}

// try is run for an engine that may refuse.
func (d *passData) try(b *bench, p *Plan) ([]float32, error) {
	b.Helper()
	workspace := b.room(p.Workspace())
	err := b.ctx.Do(func() error {
		return errors.Join(p.Run(b.s, workspace, d.p[0], d.p[1], d.p[2]), b.ctx.Synchronize(b.s))
	})
	if err != nil {
		return nil, err
	}
	return b.get(d.types[d.result], d.p[d.result], counts(d.c)[d.result]), nil
}

func (d *passData) want() []float32 {
	return plain(d.op, d.c, d.numbers[0], d.numbers[1], d.numbers[2])
}

// plans asks on the context's thread, and closes what comes at the test's end.
func plans[P interface{ Close() error }](b *bench, ask func() ([]P, error)) []P {
	b.Helper()
	var all []P
	b.do(func() (err error) { all, err = ask(); return })
	b.Cleanup(func() {
		for _, p := range all {
			b.do(p.Close)
		}
	})
	return all
}

// Every engine that is offered gives the pass's numbers, for windows of all kinds, in each type,
// whenever the driver does the work.
func TestConvolutionsEqualPlainLoops(t *testing.T) {
	shapes := []Conv{
		shape(0, 2, 8, 5, 5, 8, 3, 3, 1, 1),
		shape(0, 1, 16, 6, 6, 8, 3, 3, 1, 2),
		shape(0, 2, 8, 4, 4, 16, 1, 1, 0, 1),
		shape(0, 2, 8, 5, 7, 8, 1, 1, 0, 2),
		shape(0, 1, 3, 9, 9, 5, 3, 3, 1, 1),
		shape(0, 1, 8, 15, 13, 8, 7, 7, 3, 2),
		shape(0, 1, 64, 3, 3, 8, 3, 3, 1, 1),
		{N: 2, C: 4, H: 6, W: 5, K: 3, R: 3, S: 2, Pad: [2]int{2, 0}, Stride: [2]int{1, 2}},
		{N: 1, C: 1, H: 1, W: 1, K: 1, R: 1, S: 1, Stride: [2]int{3, 3}},
	}
	for _, seed := range []int{0, 1, 7} {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			b := newBench(t, "seed", seed)
			r := rand.New(rand.NewPCG(1, 2))
			for i, c := range shapes {
				for j, dtype := range []DType{BFloat16, Float32, Float16} {
					if seed != 0 && (i+j)%3 != 0 {
						// The order of work does not depend on the shape.
						continue
					}
					c.In, c.Weight, c.Out = dtype, dtype, dtype
					for _, op := range []Op{Forward, BackwardData, BackwardWeight} {
						d := newPass(b, r, op, c)
						want := d.want()
						for _, p := range plans(b, func() ([]*Plan, error) { return b.h.Plans(op, c) }) {
							near(t, p.Engine()+" for "+describe(op, c), d.run(b, p), want, ulp(dtype))
						}
					}
				}
			}
		})
	}
}

// A pass that accumulates adds to what is there, with the engines that can.
func TestConvolutionsAccumulate(t *testing.T) {
	b := newBench(t)
	r := rand.New(rand.NewPCG(15, 16))
	for _, dtype := range []DType{BFloat16, Float32} {
		c := shape(dtype, 2, 8, 5, 5, 8, 3, 3, 1, 1)
		c.Accumulate = true
		for _, op := range []Op{Forward, BackwardData, BackwardWeight} {
			all := plans(b, func() ([]*Plan, error) { return b.h.Plans(op, c) })
			want := map[DType]string{BFloat16: "eng0 k2=17 k24=3, eng0 k2=18 k24=3, eng11, legacy algo 1", Float32: "eng11, legacy algo 1"}[dtype]
			if op == Forward && dtype == Float32 {
				want = "eng11, legacy algo 0, legacy algo 1"
			}
			if got := engines(all); got != want {
				t.Errorf("%s: engines: got %s, want %s", describe(op, c), got, want)
			}
			for _, p := range all {
				d := newPass(b, r, op, c)
				sum := d.want()
				for i, v := range d.numbers[d.result] {
					sum[i] += v
				}
				near(t, p.Engine()+" for "+describe(op, c), d.run(b, p), sum, ulp(dtype))
			}
		}
	}
}
