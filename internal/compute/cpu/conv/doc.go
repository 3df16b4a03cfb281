// Package conv is the convolution of the CPU executor: forward, backward-data and backward-weight
// of a two-dimensional convolution over arrays that lie channel-last (NHWC) in memory, with weights
// as users know them (OIHW).
//
//	y[n,oh,ow,k]  = Σ over c,r,s of x[n, oh·StrideH+r−PadH, ow·StrideW+s−PadW, c] · w[k,c,r,s]
//	dx[n,h,w,c]   = Σ over k and all (oh,r), (ow,s) that meet (h,w) of dy[n,oh,ow,k] · w[k,c,r,s]
//	dw[k,c,r,s]   = Σ over n,oh,ow of x[n, oh·StrideH+r−PadH, ow·StrideW+s−PadW, c] · dy[n,oh,ow,k]
//
// Taps (r,s) that fall into the padding are never multiplied.
//
// # How it works
//
// Forward and backward-data are the same computation, a gather: each output pixel is a sum over
// taps of an input pixel's channels times a matrix. Output pixels with the same set of taps form a
// class (the inside of a map, each edge, each corner). The rows of a register tile are pixels of
// one class, taken from all images of the batch, so that tiles are full on maps of any size and
// every product counts. Inputs are read where they lie; weights are packed once a call, and only
// the taps that some pixel uses.
//
// Backward-weight is for each tap a product of a channels×pixels and a pixels×channels matrix over
// the pixels where the tap is inside. Inputs and gradients of some images at a time are copied into
// the order in which the tile reads them. Threads share out the tiles of dw, never the pixels, so
// results do not depend on the number of threads.
//
// Where an estimate says that it is faster (3×3, stride 1, channels in whole vectors, AVX-512,
// NEON), forward and backward-data go by Winograd's F(2×2, 3×3) instead, 16 products for four
// pixels in place of 36, or in float32 with AVX-512 by F(4×4, 3×3), 36 for 16 pixels in place of 144.
// In float32 backward-weight goes by F(3×3, 2×2): it sums the transformed products of all pixels
// and transforms once at the end.
//
// Few output channels, forward or backward, leave most columns of such tiles idle. Where an
// estimate says that it is faster (AVX-512, NEON), a tile's rows are output channels then: in
// forward and backward-data its columns are one pixel of many images, which lie side by side in a
// copy that is turned over, in backward-weight the inputs that a pixel of dy sees.
//
// # bfloat16
//
// A plan of NewBFloat16 multiplies bfloat16 and sums float32. The tile then reads pairs (see
// f32.PairTiles): neighbouring input channels in forward and backward-data, two images in
// backward-weight, where the sum runs over pixels. Weights are rounded as they are packed, inputs
// and gradients as they are copied for the tile; Winograd transforms in float32 and rounds what the
// transforms give. Sums over fewer than eight channels, and over images side by side, stay those of
// float32.
//
// Where the CPU has a tile unit (AMX; see f32.Tile.Blocks), sums over eight channels and more are
// its: forward and backward-data over rows of pixels that lie a constant stride apart, along images
// or over images of a copy in which these lie side by side, backward-weight over images, 32 in a
// step.
//
// The methods ForwardStored, BackwardDataStored and BackwardWeightStored take images that lie in
// memory as bfloat16, too. Of an even number of channels, these are the pairs that the tile reads,
// with no copy; two images are joined to pairs, and patches widened, on their way. Sums go to
// memory through a tile that rounds them.
//
// # Use
//
// A Plan belongs to one shape. New does all the planning; the methods allocate nothing. They need
// scratch memory, which plans that never run at the same time may share:
//
//	plan, err := conv.New(shape, pool)
//	plan.SetScratch(make([]float32, plan.ScratchLen()))
//	plan.Forward(y, x, w)
//
// A Plan may not be used by two goroutines at once. Slices of a wrong length are the caller's bug
// and panic.
//
// Results are those of float32 with fused multiply-add where the CPU has it: against Σ|x·w|, the
// error of a sum of m products stays below m·2⁻²⁴ and is about √m·2⁻²⁴. Winograd adds neighbouring
// inputs first, so its error, up to twice that by F(2×2, 3×3) and three to six times by F(4×4,
// 3×3), is relative to the largest Σ|x·w| of the pixels near by, or to the largest Σ|x·dy| of the
// nine taps. The same plan on the same path (see package f32) gives the same bits on any number of
// threads. In bfloat16 each product is off by 2⁻⁷ of its size at most, its operands by half of
// that; by Winograd the average error is up to twice that of plain products.
//
// The AVX2 path has the tiles and element-wise loops in assembly, but packs weights and pixels in
// plain Go and has no Winograd.
package conv
