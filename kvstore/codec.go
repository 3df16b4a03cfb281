package kvstore

import (
	"fmt"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// valuesSize returns the bytes that n values sent back take under a codec: float32, float16 or
// bfloat16.
func valuesSize(codec uint8, n int) int {
	if codec == wire.CodecFloat16 || codec == wire.CodecBFloat16 {
		return 2 * n
	}
	return 4 * n
}

// codeSize returns the most bytes that n encoded values take.
func (c Compression) codeSize(n int) int {
	switch c.Type {
	case "2bit":
		return f32.Code2BitLen(n)
	case "1bit":
		return f32.Code1BitLen(n)
	case "topk":
		return f32.CodeTopKLen(n, c.largest(n))
	}
	return valuesSize(c.codec(), n)
}

// An alignedBuffer is memory for encoded values, aligned for every codec.
type alignedBuffer []uint64

// bytes returns n bytes of it, grown if needed.
func (r *alignedBuffer) bytes(n int) []byte {
	grow((*[]uint64)(r), (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(*r))), 8*len(*r))[:n]
}

// encode encodes grad with c into r's memory. With error feedback residual, as long as grad, is
// added before and updated after; only topk uses top.
func (r *alignedBuffer) encode(native bool, c Compression, top *f32.TopK, residual, grad []float32) []byte {
	code := r.bytes(c.codeSize(len(grad)))
	switch c.Type {
	case "topk":
		return top.Encode(code, residual, grad, c.largest(len(grad)))
	case "2bit":
		f32.Encode2Bit(code, residual, grad, c.Threshold)
	case "1bit":
		f32.Encode1Bit(code, residual, grad, c.Threshold)
	case "fp16":
		f32.ToFloat16(halves(code), grad)
		swapHalves(native, code)
	case "bf16":
		f32.ToBFloat16(halves(code), grad)
		swapHalves(native, code)
	default:
		panic(fmt.Sprintf("kvstore: encode: no code for %q", c.Type))
	}
	return code
}

// addDecoded adds the decoded values to dst; scratch is as long as dst.
func addDecoded(native bool, c Compression, dst []float32, code []byte, scratch []float32) {
	switch c.Type {
	case "2bit":
		f32.AddDecoded2Bit(dst, code, c.Threshold)
	case "1bit":
		f32.AddDecoded1Bit(dst, code)
	case "topk":
		f32.AddDecodedTopK(dst, code)
	default:
		decodeHalves(native, c.codec(), scratch, code)
		f32.AddTo(dst, scratch)
	}
}

// decodeHalves decodes 16-bit values. It may overwrite code.
func decodeHalves(native bool, codec uint8, dst []float32, code []byte) {
	swapHalves(native, code)
	if codec == wire.CodecFloat16 {
		f32.FromFloat16(dst, halves(code))
	} else {
		f32.FromBFloat16(dst, halves(code))
	}
}

// halves views the bytes of an alignedBuffer as 16-bit numbers in this machine's byte order.
func halves(code []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(code))), len(code)/2)
}

// swapHalves converts 16-bit numbers between this machine's byte order and little-endian.
func swapHalves(native bool, code []byte) {
	if native {
		return
	}
	for i := 0; i+1 < len(code); i += 2 {
		code[i], code[i+1] = code[i+1], code[i]
	}
}
