package kvstore

import (
	"fmt"
	"unsafe"

	"github.com/paragon-train/paragon/internal/f32"
	"github.com/paragon-train/paragon/wire"
)

// encodedSize returns the bytes that n values take under a codec: 2bit and 1bit are padded to 4 bytes.
func encodedSize(codec uint8, n int) int {
	switch codec {
	case wire.CodecFloat16, wire.CodecBFloat16:
		return 2 * n
	case wire.Codec2Bit:
		return f32.Code2BitLen(n)
	case wire.Codec1Bit:
		return f32.Code1BitLen(n)
	}
	return 4 * n
}

// room is memory for encoded values, aligned for any of them.
type room []uint64

// bytes returns n bytes of it, grown if need be.
func (r *room) bytes(n int) []byte {
	grow((*[]uint64)(r), (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(*r))), 8*len(*r))[:n]
}

// encode writes grad as c says and returns it in memory of r. With error feedback residual, as long as grad, takes part.
func (r *room) encode(native bool, c Compression, residual, grad []float32) []byte {
	code := r.bytes(encodedSize(c.codec(), len(grad)))
	switch c.Type {
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

// addDecoded adds to dst what a code says; scratch is as long as dst.
func addDecoded(native bool, c Compression, dst []float32, code []byte, scratch []float32) {
	switch c.Type {
	case "2bit":
		f32.AddDecoded2Bit(dst, code, c.Threshold)
	case "1bit":
		f32.AddDecoded1Bit(dst, code)
	default:
		decodeHalves(native, c.codec(), scratch, code)
		f32.AddTo(dst, scratch)
	}
}

// decodeHalves decodes 16-bit values. It may change code.
func decodeHalves(native bool, codec uint8, dst []float32, code []byte) {
	swapHalves(native, code)
	if codec == wire.CodecFloat16 {
		f32.FromFloat16(dst, halves(code))
	} else {
		f32.FromBFloat16(dst, halves(code))
	}
}

// halves views bytes, which come from a room, as 16-bit numbers in this machine's order.
func halves(code []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(code))), len(code)/2)
}

// swapHalves turns 16-bit numbers from this machine's order into little-endian and back.
func swapHalves(native bool, code []byte) {
	if native {
		return
	}
	for i := 0; i+1 < len(code); i += 2 {
		code[i], code[i+1] = code[i+1], code[i]
	}
}
