//go:build amd64 || arm64

package f32

// encoder makes Encode2Bit or Encode1Bit, with perByte elements in a byte, of a kernel for
// multiples of 16.
func encoder(perByte int, wide func(code *byte, residual, grad *float32, t float32, n int), rest func(code []byte, residual, grad []float32, t float32)) func(code []byte, residual, grad []float32, t float32) {
	return func(code []byte, residual, grad []float32, t float32) {
		n := len(grad) &^ 15
		if n > 0 {
			wide(&code[0], &residual[0], &grad[0], t, n)
		}
		rest(code[n/perByte:], residual[n:], grad[n:], t)
	}
}

func decoder2Bit(wide func(dst *float32, code *byte, t float32, n int)) func(dst []float32, code []byte, t float32) {
	return func(dst []float32, code []byte, t float32) {
		n := len(dst) &^ 15
		if n > 0 {
			wide(&dst[0], &code[0], t, n)
		}
		addDecoded2BitPortable(dst[n:], code[n/4:], t)
	}
}

func decoder1Bit(wide func(dst *float32, code *byte, n int)) func(dst []float32, code []byte) {
	return func(dst []float32, code []byte) {
		n := len(dst) &^ 15
		if n > 0 {
			wide(&dst[0], &code[0], n)
		}
		addDecoded1BitPortable(dst[n:], code[n/8:])
	}
}

// collector makes collect of a kernel that stops where fewer than 16 entries of room are left.
func collector(wide func(found *uint32, x *float32, low uint32, room, n int) (done, count int)) func(found []uint32, x []float32, low uint32) (done, count int) {
	return func(found []uint32, x []float32, low uint32) (done, count int) {
		n := len(x) &^ 15
		if n > 0 && len(found) >= lanes {
			if done, count = wide(&found[0], &x[0], low, len(found), n); done < n {
				return done, count
			}
		}
		return collectFrom(found, count, x, done, low)
	}
}
