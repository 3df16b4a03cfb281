package kernels

import "github.com/paragon-train/paragon/internal/compute/cuda/drv"

// An Update is the numbers of one step of an optimizer, which lie in device memory so that a
// captured graph stays valid when they change: sixteen float32 in the order of the fields (Words).
// They are those of the same name in internal/compute/f32.Update:
//
//	g = clamp(Scale·grad, ±Clip)·Shrink,  d = g + Decay·w
type Update struct {
	Scale, Clip, Shrink   float32
	Rate, Decay, Momentum float32
	Epsilon               float32

	// Keep is 1, or for adamw 1 − rate·decay with Decay 0.
	Keep float32

	Beta1, Rest1 float32 // β₁ and 1−β₁
	Beta2, Rest2 float32

	// Root is 1/√(1−β₂ᵗ). Rate holds 1/(1−β₁ᵗ).
	Root float32
}

// UpdateBytes is the size of an Update on the device.
const UpdateBytes = 64

// Words is the update as it lies on the device.
func (u Update) Words() [UpdateBytes / 4]float32 {
	return [...]float32{u.Scale, u.Clip, u.Shrink, u.Rate, u.Decay, u.Momentum, u.Epsilon, u.Keep, u.Beta1, u.Rest1, u.Beta2, u.Rest2, u.Root, 0, 0, 0}
}

// SGD sets w ← w − Rate·d for n numbers. update is the address of an Update. skip is the address of
// a uint32, as Unscale's found, or 0: if it holds anything but 0 nothing changes.
func (k *Set) SGD(s drv.Stream, n int64, w, g, update, skip drv.Ptr) error {
	return k.optimize(s, "sgd", n, update, skip, 1, w, g)
}

// MomentumSGD sets m ← Momentum·m − Rate·d, w ← w + m.
func (k *Set) MomentumSGD(s drv.Stream, n int64, w, g, m, update, skip drv.Ptr) error {
	return k.optimize(s, "momentum_sgd", n, update, skip, 2, w, g, m)
}

// Nesterov sets m ← Momentum·m − Rate·d, w ← w + Momentum·m − Rate·d with the new m.
func (k *Set) Nesterov(s drv.Stream, n int64, w, g, m, update, skip drv.Ptr) error {
	return k.optimize(s, "nesterov", n, update, skip, 2, w, g, m)
}

// Adam sets m ← Beta1·m + Rest1·d, v ← Beta2·v + Rest2·d², w ← Keep·w − Rate·m/(√v·Root + Epsilon).
// Adamw is the same with its own Keep and Decay.
func (k *Set) Adam(s drv.Stream, n int64, w, g, mean, variance, update, skip drv.Ptr) error {
	return k.optimize(s, "adam", n, update, skip, 3, w, g, mean, variance)
}

// optimize launches a rule over its arrays of float32, of which it writes all but the gradient.
func (k *Set) optimize(s drv.Stream, name string, n int64, update, skip drv.Ptr, writes int64, arrays ...drv.Ptr) error {
	l := k.begin(name, s)
	l.numbers(n).pointers(arrays...).pointers(update)
	l.a.ptr(arrays...).ptr(update, skip).i64(n).flag(aligned(arrays...))
	return l.flat("", n, 4*n*int64(len(arrays)), 4*n*writes)
}
