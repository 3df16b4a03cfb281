package cuda

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// matrix gives a matrix in the type that is multiplied.
func (l *lowering) matrix(v *plan.Value) (func() drv.Ptr, error) {
	if r := v.Root(); r.Source == plan.Parameter && len(v.Shape) == 2 {
		return l.operand(v, kernels.Tensor{Type: l.typ.typ(), K: v.Shape[0], C: v.Shape[1], R: 1, S: 1, PadK: v.Shape[0], PadC: v.Shape[1]})
	}
	return l.as(v, l.typ.typ()), nil
}

// operand gives v, float32 and row-major, in another form. A parameter's copy is made once in a
// run, when its value has come; others' where they are used.
func (l *lowering) operand(v *plan.Value, t kernels.Tensor) (func() drv.Ptr, error) {
	if from := typeOf(v); from != kernels.Float32 {
		return nil, fmt.Errorf("%q is %v, want f32", v.Name, from)
	}
	if plain(t) {
		return func() drv.Ptr { return l.at(v) }, nil
	}
	r := v.Root()
	if r.Source == plan.Parameter {
		at, err := l.forms.copyOf(r.Index, l.at(v), t)
		return func() drv.Ptr { return at }, err
	}
	room := l.room(tensorBytes(t))
	if t.PadK > t.K {
		filter := drv.Ptr(t.Type.Size() * int64(t.PadC) * int64(t.R*t.S))
		l.before = append(l.before, func() launch {
			from, n := room()+filter*drv.Ptr(t.K), int64(filter)*int64(t.PadK-t.K)
			return func(s drv.Stream) error { return l.gpu.context.Memset8(from, 0, n, s) }
		})
	}
	l.before = append(l.before, func() launch {
		src, dst := l.at(v), room()
		return func(s drv.Stream) error {
			return l.gpu.kernels.ToChannelsLast(s, t.Type, kernels.Float32, t.K, t.C, t.R*t.S, t.PadC, dst, src)
		}
	})
	return room, nil
}

// image gives an image in the type that is multiplied, with padded channels: as it lies, or through
// scratch memory.
func (l *lowering) image(v *plan.Value) func() drv.Ptr {
	t, from := l.typ.typ(), typeOf(v)
	c := v.Shape[1]
	lanes := l.typ.lanes(c)
	if from == t && lanesOf(v) == lanes {
		return func() drv.Ptr { return l.at(v) }
	}
	rows := v.Len() / c
	room := l.room(int64(rows) * int64(lanes) * t.Size())
	l.before = append(l.before, func() launch {
		src, dst := l.at(v), room()
		return func(s drv.Stream) error { return l.gpu.kernels.ToChannelsLast(s, t, from, rows, c, 1, lanes, dst, src) }
	})
	return room
}

// result is where an image goes that a convolution makes: v's memory, or scratch memory from which
// its channels are taken after.
func (l *lowering) result(v *plan.Value) (at func() drv.Ptr, after []func() launch) {
	from, to := l.typ.typ(), typeOf(v)
	c := v.Shape[1]
	lanes := l.typ.lanes(c)
	if from == to && lanes == c {
		return func() drv.Ptr { return l.at(v) }, nil
	}
	rows := v.Len() / c
	room := l.room(int64(rows) * int64(lanes) * from.Size())
	return room, []func() launch{func() launch {
		src, dst := room(), l.at(v)
		return func(s drv.Stream) error {
			return l.gpu.kernels.ToChannelsFirst(s, to, from, rows, c, 1, lanes, dst, src)
		}
	}}
}

// cast sets v from float32 numbers.
func (l *lowering) cast(v *plan.Value, from func() drv.Ptr) func() launch {
	return func() launch {
		to, n, src, dst := typeOf(v), int64(v.Len()), from(), l.at(v)
		return func(s drv.Stream) error { return l.gpu.kernels.Cast(s, to, kernels.Float32, n, dst, src) }
	}
}

// floats gives v in its own type if that is t or float32, else as float32 through a cast.
func (l *lowering) floats(v *plan.Value, t kernels.Type) (at func() drv.Ptr, typ kernels.Type) {
	from := typeOf(v)
	if from == t || from == kernels.Float32 {
		return func() drv.Ptr { return l.at(v) }, from
	}
	return l.as(v, kernels.Float32), kernels.Float32
}

// as gives v's numbers, in their order, in type t: v itself where it has it, else a cast into
// scratch memory that is launched first.
func (l *lowering) as(v *plan.Value, t kernels.Type) func() drv.Ptr {
	from := typeOf(v)
	if from == t {
		return func() drv.Ptr { return l.at(v) }
	}
	n := int64(v.Len())
	room := l.room(n * t.Size())
	l.before = append(l.before, func() launch {
		src, dst := l.at(v), room()
		return func(s drv.Stream) error { return l.gpu.kernels.Cast(s, t, from, n, dst, src) }
	})
	return room
}
