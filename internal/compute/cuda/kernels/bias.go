package kernels

import "github.com/paragon-train/paragon/internal/compute/cuda/drv"

// BiasAdd sets y = x + b for each channel, and then max(y, 0) if relu. x is (N, C, inner)
// row-major; inner is 1 where channels come last (then n counts pixels). b is (C) float32. y may be
// x.
func (k *Set) BiasAdd(s drv.Stream, t Type, n, c, inner int, y, x, b drv.Ptr, relu bool) error {
	l := k.begin("bias_add", s)
	l.types(t).sizes(n, c, inner).pointers(y, x, b)
	all := t.Size() * int64(n) * int64(c) * int64(inner)
	if inner == 1 {
		r := k.rows(n, c, aligned(y, x, b), 4)
		l.a.ptr(y, x, b).i32(n, c, r.lanes).flag(relu)
		return l.rows(suffix(t), r, all+4*int64(c), all)
	}
	l.name = "bias_add_planes"
	total := int64(n) * int64(c) * int64(inner)
	l.a.ptr(y, x, b).i64(total).i32(c, inner).flag(relu)
	return l.flat(suffix(t), total, all+4*int64(c), all)
}

// BiasGrad sets db[c] to the sum over the rest of dy (N, C, inner), db in float32. workspace has
// SumsWorkspace(C) bytes.
func (k *Set) BiasGrad(s drv.Stream, t Type, n, c, inner int, db, dy, workspace drv.Ptr) error {
	l := k.begin("channel_sums", s)
	l.types(t).sizes(n, c, inner).pointers(db, dy)
	all := t.Size() * int64(n) * int64(c) * int64(inner)
	if inner != 1 {
		l.name = "plane_sums"
		l.a.ptr(db, dy).i32(n, c, inner)
		return l.launch(suffix(t), [3]uint32{uint32(c), 1, 1}, all, 4*int64(c))
	}
	l.pointers(workspace)
	r := k.sums(n, c, aligned(dy), 4)
	l.a.ptr(workspace, dy).i32(n, c, r.lanes)
	partial := 4 * int64(c) * int64(r.grid[0])
	if err := l.rows(suffix(t), r, all, partial); err != nil {
		return err
	}
	l = k.begin("channel_sums_finish", s)
	l.a.ptr(db, workspace).i32(int(r.grid[0]), c)
	return l.channels(c, partial, 4*int64(c))
}

// SumsWorkspace is the number of bytes that BiasGrad needs for c channels, at an address that is a
// multiple of 16.
func (k *Set) SumsWorkspace(c int) int64 { return 4 * int64(c) * int64(k.maxBlocks()) }
