package kernels

import "github.com/paragon-train/paragon/internal/compute/cuda/drv"

// ToChannelsLast sets dst (N,pixels,padded) to src (N,C,pixels), channels C to padded−1 of dst to
// zero. Types: the same, or one of them Float32. Weights are images too: (K,C,R,S) float32 becomes
// (K,R,S,padded).
func (k *Set) ToChannelsLast(s drv.Stream, to, from Type, n, c, pixels, padded int, dst, src drv.Ptr) error {
	l := k.begin("to_channels_last", s)
	return l.transpose(to, from, n, c, pixels, padded, dst, src, int64(n)*int64(pixels)*int64(padded), int64(n)*int64(pixels)*int64(c))
}

// ToChannelsFirst sets dst (N,C,pixels) to src (N,pixels,padded), of which it reads the first C
// channels. Types as in ToChannelsLast.
func (k *Set) ToChannelsFirst(s drv.Stream, to, from Type, n, c, pixels, padded int, dst, src drv.Ptr) error {
	l := k.begin("to_channels_first", s)
	numbers := int64(n) * int64(pixels) * int64(c)
	return l.transpose(to, from, n, c, pixels, padded, dst, src, numbers, numbers)
}

// transpose goes over squares of 32 pixels and 32 channels.
func (l *launch) transpose(to, from Type, n, c, pixels, padded int, dst, src drv.Ptr, written, read int64) error {
	l.types(to, from).sizes(n, c, pixels, padded).pointers(dst, src)
	if padded < c {
		return l.fail("got %d channels in room for %d", c, padded)
	}
	if from != to && from != Float32 && to != Float32 {
		return l.fail("got types %v and %v, want the same or one of them f32", from, to)
	}
	squares := wholeBlocks(int64(pixels), 32) * wholeBlocks(int64(padded), 32) * int64(n)
	l.a.ptr(dst, src).i32(n, c, pixels, padded)
	grid := [3]uint32{uint32(min(squares, 8*int64(l.set.maxBlocks()))), 1, 1}
	return l.launch(suffix2(from, to), grid, from.Size()*read, to.Size()*written)
}

// A Pixels is a batch of images from bytes, augmented and normalised: what data.Augment does. For
// image n, channel c:
//
//	dst[n,h,w,c] = (p/255 − Mean[c]) / Std[c]
//
// with p the byte of image Indices[n] at row h+dy and column w'+dx, w' = w, or W−1−w if it is
// flipped; 0 outside of the image. Channels C to Padded−1 of dst are zero.
type Pixels struct {
	// Type is that of Dst.
	Type Type

	N, C, H, W, Padded int // C at most 4
	Dst                drv.Ptr

	// Src has images (C,H,W) of bytes, one after the other.
	Src drv.Ptr

	// Indices is (N) int32: which images; 0: image n.
	Indices drv.Ptr

	// Images is how many there are in Src; 0: N. An index outside gives a black image.
	Images int

	// Draws is (N) int32, each Draw(dx, dy, flip); 0: no shift and no flip.
	Draws drv.Ptr

	// Mean and Std are those of each channel, of values in [0, 1]. A Std of 0 means 1.
	Mean, Std [4]float32
}

// Draw packs what was drawn for one image.
func Draw(dx, dy int, flip bool) int32 {
	d := int32(uint32(uint8(int8(dx))) | uint32(uint8(int8(dy)))<<8)
	if flip {
		d |= 1 << 16
	}
	return d
}

// Pixels fills Dst.
func (k *Set) Pixels(s drv.Stream, p Pixels) error {
	l := k.begin("pixels", s)
	if p.Images == 0 {
		p.Images = p.N
	}
	l.types(p.Type).sizes(p.N, p.C, p.H, p.W, p.Padded, p.Images).pointers(p.Dst, p.Src)
	if p.C > 4 || p.Padded < p.C {
		return l.fail("got %d channels in room for %d, want at most 4 and no more than the room", p.C, p.Padded)
	}
	for i, v := range p.Std {
		if v == 0 {
			p.Std[i] = 1
		}
	}
	l.a.ptr(p.Dst, p.Src, p.Indices, p.Draws).i32(p.N, p.C, p.H, p.W, p.Padded, p.Images).f32(p.Mean[:]...).f32(p.Std[:]...).
		flag(aligned(p.Dst) && p.Padded%8 == 0)
	pixels := int64(p.N) * int64(p.H) * int64(p.W)
	return l.launch(suffix(p.Type), [3]uint32{uint32(min(wholeBlocks(pixels, threads), 8*int64(k.maxBlocks()))), 1, 1},
		pixels*int64(p.C), pixels*int64(p.Padded)*p.Type.Size())
}
