package kernels

import "github.com/paragon-train/paragon/internal/compute/cuda/drv"

// A Pool is the shape of a pooling: x (N,H,W,C), y (N,OH,OW,C). The window of result (i, j) starts
// at row i·Stride[0]−Pad[0] and column j·Stride[1]−Pad[1] and has Kernel[0]×Kernel[1] positions;
// those outside of x do not count. OH and OW follow from the rest: (H+2·Pad[0]−Kernel[0])/Stride[0] +
// 1, and likewise.
type Pool struct {
	// Type is that of x, y and their gradients.
	Type Type

	N, H, W, C          int
	Kernel, Stride, Pad [2]int // {rows, columns}

	// ExcludePad makes an average divide by the number of positions in x, not by the kernel's
	// size.
	ExcludePad bool
}

// Out is OH and OW.
func (p Pool) Out() (height, width int) {
	return (p.H+2*p.Pad[0]-p.Kernel[0])/max(p.Stride[0], 1) + 1, (p.W+2*p.Pad[1]-p.Kernel[1])/max(p.Stride[1], 1) + 1
}

func (p Pool) numbers() (x, y int64) {
	oh, ow := p.Out()
	images := int64(p.N) * int64(p.C)
	return images * int64(p.H) * int64(p.W), images * int64(oh) * int64(ow)
}

// begin checks the shape and hands it to the kernel, after the addresses.
func (p Pool) begin(k *Set, name string, s drv.Stream, addresses ...drv.Ptr) *launch {
	l := k.begin(name, s)
	oh, ow := p.Out()
	l.types(p.Type).sizes(p.N, p.H, p.W, p.C, p.Kernel[0], p.Kernel[1], p.Stride[0], p.Stride[1], oh, ow).pointers(addresses...)
	if p.Pad[0] < 0 || p.Pad[1] < 0 || 2*p.Pad[0] > p.Kernel[0] || 2*p.Pad[1] > p.Kernel[1] {
		l.fail("got pad %v and kernel %v, want a pad of at most half of the kernel", p.Pad, p.Kernel)
	}
	l.a.ptr(addresses...).i32(p.N, p.H, p.W, p.C, oh, ow, p.Kernel[0], p.Kernel[1], p.Stride[0], p.Stride[1], p.Pad[0], p.Pad[1])
	return l
}

// launch goes over results of n numbers, eight channels at a time where that may be.
func (p Pool) launch(l *launch, n int64, vector bool, read, written int64) error {
	suffix := suffix(p.Type)
	if !vector || p.C%8 != 0 {
		suffix += "_1"
	} else {
		n /= 8
	}
	return l.launch(suffix, [3]uint32{uint32(max(1, min(wholeBlocks(n, threads), 4*int64(l.set.maxBlocks())))), 1, 1}, read, written)
}

// MaxPool sets y to the largest number in each window, a NaN where there is one, and choice (a byte
// for each number of y) to which element of the window it was, row·Kernel[1]+column, the first of
// equals. choice may be 0: not wanted. With choice a window has at most 256 elements.
func (k *Set) MaxPool(s drv.Stream, p Pool, y, choice, x drv.Ptr) error {
	l := p.begin(k, "max_pool", s, y, x)
	if choice != 0 && p.Kernel[0]*p.Kernel[1] > 256 {
		l.fail("a window of %d elements, want at most 256", p.Kernel[0]*p.Kernel[1])
	}
	l.a.ptr(choice)
	nx, ny := p.numbers()
	written := p.Type.Size() * ny
	if choice != 0 {
		written += ny
	}
	return p.launch(l, ny, aligned(y, choice, x), p.Type.Size()*nx, written)
}

// MaxPoolGrad sets dx to the sum of dy over the windows that chose it, in the order of the windows.
func (k *Set) MaxPoolGrad(s drv.Stream, p Pool, dx, choice, dy drv.Ptr) error {
	l := p.begin(k, "max_pool_grad", s, dx, dy)
	l.pointers(choice)
	l.a.ptr(choice)
	nx, ny := p.numbers()
	return p.launch(l, nx, aligned(dx, choice, dy), (p.Type.Size()+1)*ny, p.Type.Size()*nx)
}

// AvgPool sets y to the mean of each window.
func (k *Set) AvgPool(s drv.Stream, p Pool, y, x drv.Ptr) error {
	l := p.begin(k, "avg_pool", s, y, x)
	l.a.flag(p.ExcludePad)
	nx, ny := p.numbers()
	return p.launch(l, ny, aligned(y, x), p.Type.Size()*nx, p.Type.Size()*ny)
}

// AvgPoolGrad sets dx to the sum of dy over the windows that a position is in, each divided as
// AvgPool does.
func (k *Set) AvgPoolGrad(s drv.Stream, p Pool, dx, dy drv.Ptr) error {
	l := p.begin(k, "avg_pool_grad", s, dx, dy)
	l.a.flag(p.ExcludePad)
	nx, ny := p.numbers()
	return p.launch(l, nx, aligned(dx, dy), p.Type.Size()*ny, p.Type.Size()*nx)
}

// GlobalAvgPool sets y (N,C) to the mean over the pixels of x (N,pixels,C). y is of type yType:
// that of x or Float32.
func (k *Set) GlobalAvgPool(s drv.Stream, t, yType Type, n, pixels, c int, y, x drv.Ptr) error {
	l := k.begin("global_avg_pool", s)
	l.types(t, yType).sizes(n, pixels, c).pointers(y, x)
	l.sideType(t, yType)
	r := k.rows(pixels, c, aligned(x, y), 4)
	r.grid[0] = uint32(min(n, 65535*16))
	l.a.ptr(y, x).i32(n, pixels, c, r.lanes).flag(yType == Float32)
	numbers := int64(n) * int64(c)
	return l.rows(suffix(t), r, t.Size()*numbers*int64(pixels), yType.Size()*numbers)
}

// GlobalAvgPoolGrad sets dx (N,pixels,C) to dy (N,C) / pixels. dy is of type dyType: that of dx or
// Float32.
func (k *Set) GlobalAvgPoolGrad(s drv.Stream, t, dyType Type, n, pixels, c int, dx, dy drv.Ptr) error {
	l := k.begin("global_avg_pool_grad", s)
	l.types(t, dyType).sizes(n, pixels, c).pointers(dx, dy)
	l.sideType(t, dyType)
	r := k.rows(pixels, c, aligned(dx, dy), 4)
	r.grid[0] = uint32(min(n, 65535*16))
	l.a.ptr(dx, dy).i32(n, pixels, c, r.lanes).flag(dyType == Float32)
	numbers := int64(n) * int64(c)
	return l.rows(suffix(t), r, dyType.Size()*numbers, t.Size()*numbers*int64(pixels))
}

// sideType checks the type of what is small beside the images.
func (l *launch) sideType(t, side Type) {
	if side != t && side != Float32 {
		l.fail("got %v beside images of %v, want %v or f32", side, t, t)
	}
}
