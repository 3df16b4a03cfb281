package f32

import "fmt"

// Gradient compression with error feedback: what a code cannot say stays in the residual and is
// added to the next gradient. For each element first residual += grad, in float32; then
//
//	2 bits: residual ≥ t → code 11, says +t; residual ≤ −t → code 10, says −t; else code 00, says 0; residual −= what was said
//	1 bit:  residual > t → code 1, says +1; else code 0, says −1; residual −= what was said
//
// Codes are packed from the high bits of a byte down: element i lies in byte i/4 (2 bits) or i/8 (1
// bit). The code's length is a multiple of 4 bytes, padded with zero bits; padding of 1-bit codes
// reads as −1, so the number of elements travels beside the code.

// Code2BitLen is the number of bytes of the 2-bit code of n elements.
func Code2BitLen(n int) int { return (n + 15) / 16 * 4 }

// Code1BitLen is the number of bytes of the 1-bit code of n elements.
func Code1BitLen(n int) int { return (n + 31) / 32 * 4 }

// Encode2Bit adds grad to residual, writes the 2-bit code, of Code2BitLen(len(grad)) bytes, and
// takes what it says from residual. threshold must be above 0.
func Encode2Bit(code []byte, residual, grad []float32, threshold float32) {
	checkCode("Encode2Bit", len(code), Code2BitLen(len(grad)), len(residual), len(grad))
	if !(threshold > 0) {
		panic(fmt.Sprintf("f32: Encode2Bit: threshold %g, want above 0", threshold))
	}
	kernels.encode2Bit(code, residual, grad, threshold)
}

// AddDecoded2Bit adds to dst what a 2-bit code of len(dst) elements says. The code 01, which
// Encode2Bit never writes, says 0.
func AddDecoded2Bit(dst []float32, code []byte, threshold float32) {
	checkCode("AddDecoded2Bit", len(code), Code2BitLen(len(dst)), 0, 0)
	kernels.addDecoded2Bit(dst, code, threshold)
}

// Encode1Bit adds grad to residual, writes the 1-bit code, of Code1BitLen(len(grad)) bytes, and
// takes what it says from residual. What is said is ±1 whatever the threshold.
func Encode1Bit(code []byte, residual, grad []float32, threshold float32) {
	checkCode("Encode1Bit", len(code), Code1BitLen(len(grad)), len(residual), len(grad))
	kernels.encode1Bit(code, residual, grad, threshold)
}

// AddDecoded1Bit adds to dst what a 1-bit code of len(dst) elements says.
func AddDecoded1Bit(dst []float32, code []byte) {
	checkCode("AddDecoded1Bit", len(code), Code1BitLen(len(dst)), 0, 0)
	kernels.addDecoded1Bit(dst, code)
}

func checkCode(op string, code, want, residual, grad int) {
	if code != want || residual != grad {
		panic(fmt.Sprintf("f32: %s: code of %d bytes, want %d; residual of %d values, gradient of %d", op, code, want, residual, grad))
	}
}

func encode2BitPortable(code []byte, residual, grad []float32, t float32) {
	clear(code)
	for i, g := range grad {
		r := residual[i] + g
		var c byte
		switch {
		case r >= t:
			c = 3
			r -= t
		case r <= -t:
			c = 2
			r += t
		}
		residual[i] = r
		code[i/4] |= c << (6 - i%4*2)
	}
}

func addDecoded2BitPortable(dst []float32, code []byte, t float32) {
	says := [4]float32{0, 0, -t, t}
	for i := range dst {
		if c := code[i/4] >> (6 - i%4*2) & 3; c >= 2 {
			dst[i] += says[c]
		}
	}
}

func encode1BitPortable(code []byte, residual, grad []float32, t float32) {
	clear(code)
	for i, g := range grad {
		r := residual[i] + g
		if r > t {
			code[i/8] |= 0x80 >> (i % 8)
			r--
		} else {
			r++
		}
		residual[i] = r
	}
}

func addDecoded1BitPortable(dst []float32, code []byte) {
	for i := range dst {
		if code[i/8]<<(i%8)&0x80 != 0 {
			dst[i]++
		} else {
			dst[i]--
		}
	}
}
