package kvstore

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/kvstore/internal/buffer"
)

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
	return buffer.ValuesSize(c.codec(), n)
}

// encode encodes grad into r's memory. With error feedback residual, as long as grad, is
// added before and updated after; only topk uses top.
func (c Compression) encode(r *buffer.Aligned, native bool, top *f32.TopK, residual, grad []float32) []byte {
	code := r.Bytes(c.codeSize(len(grad)))
	switch c.Type {
	case "topk":
		return top.Encode(code, residual, grad, c.largest(len(grad)))
	case "2bit":
		f32.Encode2Bit(code, residual, grad, c.Threshold)
	case "1bit":
		f32.Encode1Bit(code, residual, grad, c.Threshold)
	case "fp16":
		f32.ToFloat16(buffer.Halves(code), grad)
		buffer.SwapHalves(native, code)
	case "bf16":
		f32.ToBFloat16(buffer.Halves(code), grad)
		buffer.SwapHalves(native, code)
	default:
		panic(fmt.Sprintf("kvstore: encode: no code for %q", c.Type))
	}
	return code
}

// addDecoded adds the decoded values to dst; scratch is as long as dst. It is what a server does
// with the code, so that a store within this process, which compresses each device's gradient and
// sends none, trains as one that sends.
func addDecoded(native bool, c Compression, dst []float32, code []byte, scratch []float32) {
	switch c.Type {
	case "2bit":
		f32.AddDecoded2Bit(dst, code, c.Threshold)
	case "1bit":
		f32.AddDecoded1Bit(dst, code)
	case "topk":
		f32.AddDecodedTopK(dst, code)
	default:
		buffer.DecodeHalves(native, c.codec(), scratch, code)
		f32.AddTo(dst, scratch)
	}
}
