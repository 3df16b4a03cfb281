package f32

// assembled is the kernels of an assembly path: the portable set with what there is in assembly put
// over it.
func assembled(p Path) kernelSet {
	s := portable
	if p == AVX2 {
		s.tile = Tile{Rows: 6, Cols: 16, OuterRows: []int{6, 4, 2}, path: AVX2}
		s.add = binary(8, addAVX2, addPortable)
		s.mul = binary(8, mulAVX2, mulPortable)
		s.reluGrad = binary(8, reluGradAVX2, reluGradPortable)
		s.relu = unary(8, reluAVX2, reluPortable)
		s.axpy = scaled(8, axpyAVX2, axpyPortable)
		s.scale = scaled(8, scaleAVX2, scalePortable)
		s.divide = scaled(8, divideAVX2, dividePortable)
		s.axpby = blended(8, axpbyAVX2)
		s.sum, s.dot, s.max = sumOf(8, sumAVX2), dotOf(8, dotAVX2), maxOf(8, maxAVX2)
		s.sumTo, s.meanTo = sumsTo(8, sumToAVX2), meansTo(8, meanToAVX2)
		s.toFloat16 = narrowed(8, toFloat16AVX2, toFloat16Portable)
		s.fromFloat16 = widened(8, fromFloat16AVX2, fromFloat16Portable)
		s.toBFloat16 = narrowed(8, toBFloat16AVX2, toBFloat16Portable)
		s.fromBFloat16 = widened(8, fromBFloat16AVX2, fromBFloat16Portable)
		s.maxWhich = maxWhichOf(maxWhichAVX2)
		s.encode2Bit, s.addDecoded2Bit = encoder(4, encode2BitAVX2, encode2BitPortable), decoder2Bit(addDecoded2BitAVX2)
		s.encode1Bit, s.addDecoded1Bit = encoder(8, encode1BitAVX2, encode1BitPortable), decoder1Bit(addDecoded1BitAVX2)
		s.collect = collector(collectAVX2)
		return s
	}
	s.tile = Tile{Rows: 12, Cols: 32, OuterRows: []int{12, 8, 4}, path: AVX512}
	s.add = binary(16, addAVX512, addPortable)
	s.mul = binary(16, mulAVX512, mulPortable)
	s.reluGrad = binary(16, reluGradAVX512, reluGradPortable)
	s.relu = unary(16, reluAVX512, reluPortable)
	s.axpy = scaled(16, axpyAVX512, axpyPortable)
	s.scale = scaled(16, scaleAVX512, scalePortable)
	s.divide = scaled(16, divideAVX512, dividePortable)
	s.axpby = blended(16, axpbyAVX512)
	s.sum, s.dot, s.max = sumOf(16, sumAVX512), dotOf(16, dotAVX512), maxOf(16, maxAVX512)
	s.sumTo, s.meanTo = sumsTo(16, sumToAVX512), meansTo(16, meanToAVX512)
	s.toFloat16 = narrowed(16, toFloat16AVX512, toFloat16Portable)
	s.fromFloat16 = widened(16, fromFloat16AVX512, fromFloat16Portable)
	s.toBFloat16 = narrowed(16, toBFloat16AVX512, toBFloat16Portable)
	s.fromBFloat16 = widened(16, fromBFloat16AVX512, fromBFloat16Portable)
	s.maxWhich = maxWhichOf(maxWhichAVX512)
	s.encode2Bit, s.addDecoded2Bit = encoder(4, encode2BitAVX512, encode2BitPortable), decoder2Bit(addDecoded2BitAVX512)
	s.encode1Bit, s.addDecoded1Bit = encoder(8, encode1BitAVX512, encode1BitPortable), decoder1Bit(addDecoded1BitAVX512)
	s.collect = collector(collectAVX512)
	return s
}

func maxWhichOf(whole func(out *float32, chosen *byte, x *float32, which byte, n int)) func(out []float32, chosen []uint8, x []float32, which uint8) {
	return func(out []float32, chosen []uint8, x []float32, which uint8) {
		n := len(out) &^ 15
		if n > 0 {
			whole(&out[0], &chosen[0], &x[0], which, n)
		}
		maxWhichPortable(out[n:], chosen[n:], x[n:], which)
	}
}
