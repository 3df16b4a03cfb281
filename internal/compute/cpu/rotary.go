package cpu

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A rotaries has the kernel of rotary positions.
type rotaries struct {
	mem     *memory
	threads threads
}

func (r *rotaries) builders() builders { return builders{plan.Rotary: r.rotary} }

// An angles has the cosine and the sine of each pair at some positions, computed in float64.
type angles struct {
	frequencies []float64
	cos, sin    []float32
}

func newAngles(a *op.Rotary, rows int) *angles {
	n := a.Size / 2
	t := &angles{frequencies: make([]float64, n), cos: make([]float32, rows*n), sin: make([]float32, rows*n)}
	for j := range t.frequencies {
		t.frequencies[j] = a.Frequency(j)
	}
	return t
}

// set sets a row to a position.
func (t *angles) set(row, position int, backward bool) {
	n := len(t.frequencies)
	for j, f := range t.frequencies {
		sin, cos := math.Sincos(float64(position) * f)
		if backward {
			sin = -sin
		}
		t.cos[row*n+j], t.sin[row*n+j] = float32(cos), float32(sin)
	}
}

// rotary turns heads row by row. y may be x. Where positions are fixed, so is the table.
func (r *rotaries) rotary(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.Rotary)
	s := o.In[0].Shape
	rows, period := s[0]*s[1], s[1]
	if a.Firsts {
		period = rows
	}
	table := newAngles(a, period)
	for t := range period {
		table.set(t, a.First+t, a.Backward)
	}
	width := s[2] * s[3]
	return kernel{bind: func() func() error {
		y, x := r.mem.floats(o.Out[0]), r.mem.floats(o.In[0])
		turn := r.threads.split(rows, rowGrain(width), func(lo, hi int) {
			for row := lo; row < hi; row++ {
				turnHeads(a, y[row*width:(row+1)*width], x[row*width:(row+1)*width], s[3], table, row%period)
			}
		})
		if !a.Firsts {
			return then(turn)
		}
		read, err := r.mem.indices(o.In[1])
		if err != nil {
			return func() error { return err }
		}
		return func() error {
			at := read()
			for b := range s[0] {
				first := at(b)
				if first < 0 {
					return fmt.Errorf("first position %d of example %d, want at least 0", first, b)
				}
				for t := range s[1] {
					table.set(b*s[1]+t, first+t, a.Backward)
				}
			}
			turn()
			return nil
		}
	}}, nil
}

// turnHeads turns the heads of a position, d numbers each.
func turnHeads(a *op.Rotary, y, x []float32, d int, table *angles, row int) {
	n := a.Size / 2
	cos, sin := table.cos[row*n:(row+1)*n], table.sin[row*n:(row+1)*n]
	for h := range a.Turned {
		to, from := y[h*d:(h+1)*d], x[h*d:(h+1)*d]
		if a.Interleaved {
			for j, c := range cos {
				p, q := from[2*j], from[2*j+1]
				to[2*j], to[2*j+1] = p*c-q*sin[j], q*c+p*sin[j]
			}
		} else {
			low, high := from[:n], from[n:2*n]
			toLow, toHigh := to[:n], to[n:2*n]
			for j, c := range cos {
				p, q := low[j], high[j]
				toLow[j], toHigh[j] = p*c-q*sin[j], q*c+p*sin[j]
			}
		}
		copy(to[a.Size:], from[a.Size:])
	}
	copy(y[a.Turned*d:], x[a.Turned*d:])
}
