package f32

func encode2BitWide(code []byte, residual, grad []float32, t float32) {
	n := len(grad) &^ 15
	if n > 0 {
		encode2BitNEON(&code[0], &residual[0], &grad[0], t, n)
	}
	encode2BitPortable(code[n/4:], residual[n:], grad[n:], t)
}

func addDecoded2BitWide(dst []float32, code []byte, t float32) {
	n := len(dst) &^ 15
	if n > 0 {
		addDecoded2BitNEON(&dst[0], &code[0], t, n)
	}
	addDecoded2BitPortable(dst[n:], code[n/4:], t)
}

func encode1BitWide(code []byte, residual, grad []float32, t float32) {
	n := len(grad) &^ 15
	if n > 0 {
		encode1BitNEON(&code[0], &residual[0], &grad[0], t, n)
	}
	encode1BitPortable(code[n/8:], residual[n:], grad[n:], t)
}

func addDecoded1BitWide(dst []float32, code []byte) {
	n := len(dst) &^ 15
	if n > 0 {
		addDecoded1BitNEON(&dst[0], &code[0], n)
	}
	addDecoded1BitPortable(dst[n:], code[n/8:])
}

func collectWide(found []uint32, x []float32, low uint32) (done, count int) {
	n := len(x) &^ 15
	if n > 0 && len(found) >= lanes {
		if done, count = collectNEON(&found[0], &x[0], low, len(found), n); done < n {
			return done, count
		}
	}
	return collectFrom(found, count, x, done, low)
}
