package kernels

import "github.com/paragon-train/paragon/internal/compute/cuda/drv"

// Cast sets dst[i] = src[i] for n numbers, rounded to nearest even where the type gets narrower;
// with equal types it is a copy.
func (k *Set) Cast(s drv.Stream, to, from Type, n int64, dst, src drv.Ptr) error {
	l := k.begin("cast", s)
	l.types(to, from).numbers(n).pointers(dst, src)
	l.a.ptr(dst, src).i64(n).flag(aligned(dst, src))
	return l.flat(suffix2(from, to), n, from.Size()*n, to.Size()*n)
}

// Fill sets dst[i] = value for n numbers.
func (k *Set) Fill(s drv.Stream, t Type, n int64, dst drv.Ptr, value float32) error {
	l := k.begin("fill", s)
	l.types(t).numbers(n).pointers(dst)
	l.a.ptr(dst).i64(n).f32(value).flag(aligned(dst))
	return l.flat(suffix(t), n, 0, t.Size()*n)
}

// Scale sets dst[i] = src[i]·constant·factor[0] for n numbers. factor is the address of a float32,
// or 0 for none. dst may be src.
func (k *Set) Scale(s drv.Stream, t Type, n int64, dst, src drv.Ptr, constant float32, factor drv.Ptr) error {
	l := k.begin("scale", s)
	l.types(t).numbers(n).pointers(dst, src)
	l.a.ptr(dst, src, factor).i64(n).f32(constant).flag(aligned(dst, src))
	return l.flat(suffix(t), n, t.Size()*n, t.Size()*n)
}

// Unscale sets dst[i] = src[i]·constant·factor[0] for n numbers, dst in float32, and found[0] = 1
// if one of the results is infinite or not a number; else it leaves found as it is. factor (a
// float32) and found (a uint32) may be 0 for none. dst may be src if from is Float32.
func (k *Set) Unscale(s drv.Stream, from Type, n int64, dst, src drv.Ptr, constant float32, factor, found drv.Ptr) error {
	l := k.begin("unscale", s)
	l.types(from).numbers(n).pointers(dst, src)
	l.a.ptr(dst, src, factor, found).i64(n).f32(constant).flag(aligned(dst, src))
	return l.flat(suffix(from), n, from.Size()*n, 4*n)
}

// Add sets y[i] = a[i] + b[i], and then max(y[i], 0) if relu, for n numbers; a NaN stays. y may be
// a or b.
func (k *Set) Add(s drv.Stream, t Type, n int64, y, a, b drv.Ptr, relu bool) error {
	l := k.begin("add", s)
	l.types(t).numbers(n).pointers(y, a, b)
	l.a.ptr(y, a, b).i64(n).flag(relu).flag(aligned(y, a, b))
	return l.flat(suffix(t), n, 2*t.Size()*n, t.Size()*n)
}

// ReLU sets y[i] = max(x[i], 0) for n numbers; a NaN stays. y may be x.
func (k *Set) ReLU(s drv.Stream, t Type, n int64, y, x drv.Ptr) error {
	l := k.begin("relu", s)
	l.types(t).numbers(n).pointers(y, x)
	l.a.ptr(y, x).i64(n).flag(aligned(y, x))
	return l.flat(suffix(t), n, t.Size()*n, t.Size()*n)
}

// ReLUGrad sets dx[i] = dy[i] where y[i] > 0, else 0, for n numbers. dx may be dy or y.
func (k *Set) ReLUGrad(s drv.Stream, t Type, n int64, dx, y, dy drv.Ptr) error {
	l := k.begin("relu_grad", s)
	l.types(t).numbers(n).pointers(dx, y, dy)
	l.a.ptr(dx, y, dy).i64(n).flag(aligned(dx, y, dy))
	return l.flat(suffix(t), n, 2*t.Size()*n, t.Size()*n)
}

// Dropout sets y[i] = x[i]·scale where element i is kept, else 0, for n numbers. y may be x.
//
// Element e is kept if mix(key[0]+e)>>32 ≥ threshold, as op.DropoutKeep says; key is the address of
// a uint64 that holds the Dropout's Key of the step, threshold its Threshold, scale 1/(1−Rate).
// Elements are numbered row-major in the (N,C,...) shape: with c = 0, e = i; else the memory is
// (N,hw,c) and e the number of the same element in (N,c,hw). The gradient is the same call on dy.
func (k *Set) Dropout(s drv.Stream, t Type, n int64, y, x, key drv.Ptr, threshold uint64, scale float32, c, hw int) error {
	l := k.begin("dropout", s)
	l.types(t).numbers(n).pointers(y, x, key)
	if c != 0 {
		l.sizes(c, hw)
	}
	l.a.ptr(y, x, key).i64(n, int64(threshold)).i32(c, hw).f32(scale).flag(aligned(y, x))
	return l.flat(suffix(t), n, t.Size()*n, t.Size()*n)
}
