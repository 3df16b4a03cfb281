package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"gorgonia.org/tensor"
)

// A window is where a pool's window for one row and column of y lies in x: rows top to bottom and
// columns left to right that are not padding; h0 and v0 may be in the padding.
type window struct {
	h0, v0                   int
	top, bottom, left, right int
}

// windows walks over the windows of one image; x and y are (N,C,H,W).
func windows(x, y tensor.Shape, kernel, stride, pad [2]int, f func(pixel int, w window)) {
	for i := range y[2] {
		for j := range y[3] {
			h0, v0 := i*stride[0]-pad[0], j*stride[1]-pad[1]
			f(i*y[3]+j, window{h0, v0, max(h0, 0), min(h0+kernel[0], x[2]), max(v0, 0), min(v0+kernel[1], x[3])})
		}
	}
}

// windowList is windows as a list.
func windowList(x, y tensor.Shape, kernel, stride, pad [2]int) []window {
	list := make([]window, 0, y[2]*y[3])
	windows(x, y, kernel, stride, pad, func(_ int, w window) { list = append(list, w) })
	return list
}

// maxOf sets out to the largest elements of the window in an image whose rows have width pixels, and
// chosen to where they were in the kernel, whose rows have kernelWidth.
func (w window) maxOf(out f32.Array, chosen []uint8, image f32.Array, width, kernelWidth int) {
	c := len(chosen)
	pixel := func(h, v int) f32.Array { return image.Part((h*width+v)*c, (h*width+v+1)*c) }
	f32.Move(out, pixel(w.top, w.left))
	first := uint8((w.top-w.h0)*kernelWidth + w.left - w.v0)
	for i := range chosen {
		chosen[i] = first
	}
	for h := w.top; h < w.bottom; h++ {
		for v := w.left; v < w.right; v++ {
			if h != w.top || v != w.left {
				maxWhich(out, chosen, pixel(h, v), uint8((h-w.h0)*kernelWidth+v-w.v0))
			}
		}
	}
}

// addTo adds the pixels of the window in an image to out.
func (w window) addTo(out []float32, image f32.Array, width int) {
	c := len(out)
	for h := w.top; h < w.bottom; h++ {
		for v := w.left; v < w.right; v++ {
			addTo(out, image.Part((h*width+v)*c, (h*width+v+1)*c))
		}
	}
}

// spread adds share·d to the pixels of the window in an image.
func (w window) spread(image []float32, share float32, d []float32, width int) {
	c := len(d)
	for h := w.top; h < w.bottom; h++ {
		for v := w.left; v < w.right; v++ {
			f32.Axpy(image[(h*width+v)*c:][:c], share, d)
		}
	}
}

// divisor is what the sum over w is divided by.
func (w window) divisor(kernel [2]int, excludePad bool) float32 {
	if excludePad {
		return float32((w.bottom - w.top) * (w.right - w.left))
	}
	return float32(kernel[0] * kernel[1])
}
