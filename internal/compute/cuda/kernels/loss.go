package kernels

import "github.com/paragon-train/paragon/internal/compute/cuda/drv"

// byRow launches a kernel that gives a warp to each row.
func (l *launch) byRow(suffix string, rows int, read, written int64) error {
	blocks := min(wholeBlocks(int64(rows), threads/32), 4*int64(l.set.maxBlocks()))
	return l.launch(suffix, [3]uint32{uint32(max(blocks, 1)), 1, 1}, read, written)
}

// Softmax sets y[b,j] = exp(x[b,j]) / Σ_i exp(x[b,i]) for rows of classes numbers, without
// overflow. y may be x.
func (k *Set) Softmax(s drv.Stream, t Type, rows, classes int, y, x drv.Ptr) error {
	l := k.begin("softmax", s)
	l.types(t).sizes(rows, classes).pointers(y, x)
	l.a.ptr(y, x).i32(rows, classes)
	all := t.Size() * int64(rows) * int64(classes)
	return l.byRow(suffix(t), rows, all, all)
}

// SoftmaxGrad sets dx[b,j] = y[b,j]·(dy[b,j] − Σ_i dy[b,i]·y[b,i]). dx may be y or dy.
func (k *Set) SoftmaxGrad(s drv.Stream, t Type, rows, classes int, dx, y, dy drv.Ptr) error {
	l := k.begin("softmax_grad", s)
	l.types(t).sizes(rows, classes).pointers(dx, y, dy)
	l.a.ptr(dx, y, dy).i32(rows, classes)
	all := t.Size() * int64(rows) * int64(classes)
	return l.byRow(suffix(t), rows, 2*all, all)
}

// A CrossEntropy is the mean over a batch of the cross-entropy of softmax(x) against class labels,
// and its gradient:
//
//	loss = 1/B · Σ_b (log Σ_j exp(x[b,j]) − (1−s)·x[b,label_b] − s/Classes · Σ_j x[b,j])
//	dx[b,j] = Scale·DLoss[0]/B · (softmax(x)[b,j] − (1−s)·[j = label_b] − s/Classes)
//
// with s the Smoothing of labels.
//
// A label of −1 marks a row that is not there: it adds nothing, has gradient zero, and B is the
// number of other rows, at least 1. A label outside of −1 to Classes−1 is counted as −1 and sets
// Bad[0] to 1.
type CrossEntropy struct {
	// Type is that of X and DX.
	Type Type

	Rows, Classes int
	X             drv.Ptr
	Labels        drv.Ptr // (Rows) int32

	// Loss is float32; 0: it is not wanted.
	Loss drv.Ptr

	// DX may be X; 0: it is not wanted.
	DX drv.Ptr

	// DLoss is float32; 0: it is 1.
	DLoss drv.Ptr

	// Scale is 1 if it is 0.
	Scale float32

	Smoothing float32 // 0 to below 1

	// Bad is uint32; 0: it is not wanted.
	Bad drv.Ptr

	// Workspace has 4·Rows bytes. It is 0 if Loss is 0.
	Workspace drv.Ptr
}

// CrossEntropy computes the loss, its gradient, or both in one pass over x.
func (k *Set) CrossEntropy(s drv.Stream, c CrossEntropy) error {
	l := k.begin("cross_entropy", s)
	l.types(c.Type).sizes(c.Rows, c.Classes).pointers(c.X, c.Labels)
	if c.Loss == 0 && c.DX == 0 {
		return l.fail("want Loss, DX or both")
	}
	if c.Loss != 0 {
		l.pointers(c.Workspace)
	} else {
		c.Workspace = 0
	}
	if c.Scale == 0 {
		c.Scale = 1
	}
	l.a.ptr(c.DX, c.Workspace, c.X, c.Labels, c.DLoss, c.Bad).i32(c.Rows, c.Classes).f32(c.Scale).f32(c.Smoothing)
	x, rows := c.Type.Size()*int64(c.Rows)*int64(c.Classes), 4*int64(c.Rows)
	written := int64(0)
	if c.DX != 0 {
		written += x
	}
	if c.Loss != 0 {
		written += rows
	}
	if err := l.byRow(suffix(c.Type), c.Rows, x+rows, written); err != nil || c.Loss == 0 {
		return err
	}
	l = k.begin("cross_entropy_finish", s)
	l.a.ptr(c.Loss, c.Workspace, c.Labels).i32(c.Rows, c.Classes)
	return l.launch("", [3]uint32{1, 1, 1}, 2*rows, 4)
}

// MSE sets loss[0] = 1/n · Σ (x−t)², in float32. workspace has MSEWorkspace() bytes.
func (k *Set) MSE(s drv.Stream, t Type, n int64, loss, x, target, workspace drv.Ptr) error {
	l := k.begin("mse", s)
	l.types(t).pointers(loss, x, target, workspace)
	if n < 1 {
		return l.fail("got %d numbers, want 1 or more", n)
	}
	l.a.ptr(workspace, x, target).i64(n).flag(aligned(x, target))
	blocks := max(1, min(wholeBlocks(n, threads*8*4), int64(k.maxBlocks())))
	if err := l.launch(suffix(t), [3]uint32{uint32(blocks), 1, 1}, 2*t.Size()*n, 4*blocks); err != nil {
		return err
	}
	l = k.begin("mse_finish", s)
	l.a.ptr(loss, workspace).i64(n).i32(int(blocks))
	return l.launch("", [3]uint32{1, 1, 1}, 4*blocks, 4)
}

// MSEWorkspace is the number of bytes that MSE needs.
func (k *Set) MSEWorkspace() int64 { return 4 * int64(k.maxBlocks()) }

// MSEGrad sets dx = scale·dloss[0]·2/n·(x−t). dloss is the address of a float32, or 0 for 1. dx may
// be x or t.
func (k *Set) MSEGrad(s drv.Stream, t Type, n int64, dx, x, target, dloss drv.Ptr, scale float32) error {
	l := k.begin("mse_grad", s)
	l.types(t).numbers(n).pointers(dx, x, target)
	l.a.ptr(dx, x, target, dloss).i64(n).f32(scale).flag(aligned(dx, x, target))
	return l.flat(suffix(t), n, 2*t.Size()*n, t.Size()*n)
}
