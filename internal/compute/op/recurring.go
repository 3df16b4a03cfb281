package op

import (
	"math"

	"gorgonia.org/gorgonia"
)

// A recurring computes a Recurrent and its gradient, example by example.
type recurring[T float] struct {
	*RecurrentForm
	RecurrentSizes

	z, w, bias, h0, c0 []T

	// lengths is nil where all examples have all steps.
	lengths []int

	s, gates, kept, before, ds []T
}

func newRecurring[T float](f *RecurrentForm, in []gorgonia.Value) (*recurring[T], error) {
	w := in[1].Shape()
	r := &recurring[T]{RecurrentForm: f, RecurrentSizes: RecurrentSizes{B: in[0].Shape()[0], T: in[0].Shape()[1], H: w[1]}}
	r.z, r.w = numbers[T](in[0]), numbers[T](in[1])
	bias, h0, c0, lengths := f.Places()
	for i, to := range map[int]*[]T{bias: &r.bias, h0: &r.h0, c0: &r.c0} {
		if i >= 0 {
			*to = numbers[T](in[i])
		}
	}
	if lengths < 0 {
		return r, nil
	}
	var err error
	if r.lengths, err = Indices(in[lengths]); err != nil {
		return nil, err
	}
	for b, n := range r.lengths {
		if err := r.Length(b, n); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// row is that of example b in a state; nil where there is none.
func (r *recurring[T]) row(x []T, b int) []T {
	if x == nil {
		return nil
	}
	return x[b*r.H : (b+1)*r.H]
}

// steps is how many steps example b has.
func (r *recurring[T]) steps(b int) int {
	if r.lengths == nil {
		return r.T
	}
	return r.lengths[b]
}

// at is the place of the k-th of n steps.
func (r *recurring[T]) at(k, n int) int {
	if r.Reverse {
		return n - 1 - k
	}
	return k
}

// part is the part of width numbers that belongs to place t of example b in an array of so many
// places.
func (r *recurring[T]) part(x []T, b, t, places, width int) []T {
	return x[(b*places+t)*width:][:width]
}

// forward computes example b.
func (r *recurring[T]) forward(b int) {
	h, c := make([]T, r.H), make([]T, r.H)
	copy(h, r.row(r.h0, b))
	copy(c, r.row(r.c0, b))
	a := make([]T, r.Gates()*r.H)
	places := r.T + r.States()
	n := r.steps(b)
	for k := range n {
		t := r.at(k, n)
		copy(r.part(r.before, b, t, r.T, r.H), h)
		for j := range a {
			a[j] = 0
			if r.bias != nil {
				a[j] = r.bias[j]
			}
			for i, v := range h {
				a[j] += r.w[j*r.H+i] * v
			}
		}
		z, gates := r.part(r.z, b, t, r.T, len(a)), r.part(r.gates, b, t, r.T, len(a))
		kept := r.part(r.kept, b, t, r.T, r.H)
		if r.GRU {
			r.unit(h, z, a, gates, kept)
		} else {
			r.cell(h, c, z, a, gates, kept)
		}
		copy(r.part(r.s, b, t, places, r.H), h)
	}
	copy(r.part(r.s, b, r.T, places, r.H), h)
	if !r.GRU {
		copy(r.part(r.s, b, r.T+1, places, r.H), c)
	}
}

func sigmoidOf[T float](x T) T { return T(1 / (1 + math.Exp(-float64(x)))) }
func tanhOf[T float](x T) T    { return T(math.Tanh(float64(x))) }

// cell is a step of an LSTM.
func (r *recurring[T]) cell(h, c, z, a, gates, kept []T) {
	for k := range h {
		i, f, g, o := k, r.H+k, 2*r.H+k, 3*r.H+k
		gates[i], gates[f], gates[o] = sigmoidOf(z[i]+a[i]), sigmoidOf(z[f]+a[f]), sigmoidOf(z[o]+a[o])
		gates[g] = tanhOf(z[g] + a[g])
		c[k] = gates[f]*c[k] + gates[i]*gates[g]
		h[k] = gates[o] * tanhOf(c[k])
		kept[k] = c[k]
	}
}

// unit is a step of a GRU.
func (r *recurring[T]) unit(h, z, a, gates, kept []T) {
	for k := range h {
		reset, update, n := k, r.H+k, 2*r.H+k
		gates[reset], gates[update] = sigmoidOf(z[reset]+a[reset]), sigmoidOf(z[update]+a[update])
		kept[k] = a[n]
		gates[n] = tanhOf(z[n] + gates[reset]*a[n])
		h[k] = (1-gates[update])*gates[n] + gates[update]*h[k]
	}
}

// backward sets example b's dz, adds its part of dw and db, and returns the gradients of its first
// states.
func (r *recurring[T]) backward(b int, dz, dw, db []T) (dh, dc []T) {
	dh, dc = make([]T, r.H), make([]T, r.H)
	places := r.T + r.States()
	copy(dh, r.part(r.ds, b, r.T, places, r.H))
	if !r.GRU {
		copy(dc, r.part(r.ds, b, r.T+1, places, r.H))
	}
	da := make([]T, r.Gates()*r.H)
	zeros := make([]T, r.H)
	n := r.steps(b)
	for k := n - 1; k >= 0; k-- {
		t := r.at(k, n)
		for i, v := range r.part(r.ds, b, t, places, r.H) {
			dh[i] += v
		}
		gates, kept, before := r.part(r.gates, b, t, r.T, len(da)), r.part(r.kept, b, t, r.T, r.H), r.part(r.before, b, t, r.T, r.H)
		to := r.part(dz, b, t, r.T, len(da))
		if r.GRU {
			r.unitGrad(dh, to, da, gates, kept, before)
		} else {
			c := zeros
			switch {
			case k > 0:
				c = r.part(r.kept, b, r.at(k-1, n), r.T, r.H)
			case r.c0 != nil:
				c = r.row(r.c0, b)
			}
			r.cellGrad(dh, dc, to, gates, kept, c)
			copy(da, to)
			clear(dh)
		}
		for j, d := range da {
			for i := range dh {
				dh[i] += d * r.w[j*r.H+i]
				dw[j*r.H+i] += d * before[i]
			}
			if db != nil {
				db[j] += d
			}
		}
	}
	return dh, dc
}

// cellGrad is a step of an LSTM backward: dz, and dc of the step before.
func (r *recurring[T]) cellGrad(dh, dc, dz, gates, kept, before []T) {
	for k := range dh {
		i, f, g, o := gates[k], gates[r.H+k], gates[2*r.H+k], gates[3*r.H+k]
		th := tanhOf(kept[k])
		dc[k] += dh[k] * o * (1 - th*th)
		dz[k] = dc[k] * g * i * (1 - i)
		dz[r.H+k] = dc[k] * before[k] * f * (1 - f)
		dz[2*r.H+k] = dc[k] * i * (1 - g*g)
		dz[3*r.H+k] = dh[k] * th * o * (1 - o)
		dc[k] *= f
	}
}

// unitGrad is a step of a GRU backward: dz, da, and dh of the step before as far as it does not go
// through W.
func (r *recurring[T]) unitGrad(dh, dz, da, gates, kept, before []T) {
	for k := range dh {
		reset, u, n := gates[k], gates[r.H+k], gates[2*r.H+k]
		dn := dh[k] * (1 - u) * (1 - n*n)
		dz[k] = dn * kept[k] * reset * (1 - reset)
		dz[r.H+k] = dh[k] * (before[k] - n) * u * (1 - u)
		dz[2*r.H+k] = dn
		da[k], da[r.H+k], da[2*r.H+k] = dz[k], dz[r.H+k], dn*reset
		dh[k] *= u
	}
}
