package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A layouts has the kernel that moves images between channels first and channels last.
type layouts struct {
	mem     *memory
	threads threads
}

func (l *layouts) builders() builders { return builders{plan.Convert: l.convert} }

// convert moves the numbers of a value to the other layout: a transposition of each image.
func (l *layouts) convert(o *plan.Op) (kernel, error) {
	return kernel{bind: func() func() error {
		y, x := l.mem.array(o.Out[0]), l.mem.array(o.In[0])
		s := o.In[0].Shape

		// rows and cols are those of an image in x.
		rows, cols := s[1], s[2]*s[3]
		if o.In[0].Layout == plan.ChannelsLast {
			rows, cols = cols, rows
		}
		size := rows * cols
		return then(l.threads.split(s[0], max(1, grain/size), func(lo, hi int) {
			for n := lo; n < hi; n++ {
				turn(y.Part(n*size, (n+1)*size), x.Part(n*size, (n+1)*size), rows, cols)
			}
		}))
	}}, nil
}

// turn is transpose, from and to either type.
func turn(y, x f32.Array, rows, cols int) {
	same16 := func(h uint16) uint16 { return h }
	switch {
	case y.F32 != nil && x.F32 != nil:
		for first := 0; first < cols; first += side {
			turnStrip(f32.Tiles(f32.Active()), y.F32, x.F32, axis{rows, cols, 1}, axis{cols, 1, rows}, first, min(side, cols-first))
		}
	case y.F32 != nil:
		transpose(y.F32, x.BF16, rows, cols, f32.BFloat16Value)
	case x.F32 != nil:
		transpose(y.BF16, x.F32, rows, cols, f32.BFloat16Bits)
	default:
		transpose(y.BF16, x.BF16, rows, cols, same16)
	}
}

// transpose sets y (cols×rows) to x (rows×cols) turned over, in squares that fit the first-level
// cache.
func transpose[D, S float32 | uint16](y []D, x []S, rows, cols int, as func(S) D) {
	for r0 := 0; r0 < rows; r0 += side {
		r1 := min(r0+side, rows)
		for c0 := 0; c0 < cols; c0 += side {
			for c := c0; c < min(c0+side, cols); c++ {
				out := y[c*rows+r0 : c*rows+r1]
				for i := range out {
					out[i] = as(x[(r0+i)*cols+c])
				}
			}
		}
	}
}
