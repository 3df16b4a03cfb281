package f32

// assembled is the kernels of NEON: the portable set with what there is in assembly put over it.
func assembled() kernelSet {
	s := portable
	s.tile = Tile{Rows: 6, Cols: narrowCols, OuterRows: []int{6, 4, 2}, path: NEON}
	s.add = binary(4, addNEON, addPortable)
	s.mul = binary(4, mulNEON, mulPortable)
	s.reluGrad = binary(4, reluGradNEON, reluGradPortable)
	s.relu = unary(4, reluNEON, reluPortable)
	s.axpy = scaled(4, axpyNEON, axpyPortable)
	s.scale = scaled(4, scaleNEON, scalePortable)
	s.divide = scaled(4, divideNEON, dividePortable)
	s.axpby = blended(4, axpbyNEON)
	s.sum, s.dot, s.max = sumOf(4, sumNEON), dotOf(4, dotNEON), maxOf(4, maxNEON)
	s.toFloat16 = narrowed(4, toFloat16NEON, toFloat16Portable)
	s.fromFloat16 = widened(4, fromFloat16NEON, fromFloat16Portable)
	s.toBFloat16 = narrowed(4, toBFloat16NEON, toBFloat16Portable)
	if hasBFMMLA {
		s.toBFloat16 = narrowed(4, toBFloat16BF16, toBFloat16Portable)
	}
	s.fromBFloat16 = widened(4, fromBFloat16NEON, fromBFloat16Portable)
	s.maxWhich = maxWhichWide
	s.encode2Bit, s.addDecoded2Bit = encoder(4, encode2BitNEON, encode2BitPortable), decoder2Bit(addDecoded2BitNEON)
	s.encode1Bit, s.addDecoded1Bit = encoder(8, encode1BitNEON, encode1BitPortable), decoder1Bit(addDecoded1BitNEON)
	s.collect = collector(collectNEON)
	s.sumTo, s.meanTo = sumsTo(4, sumToNEON), meansTo(4, meanToNEON)
	return s
}

func maxWhichWide(out []float32, chosen []uint8, x []float32, which uint8) {
	n := len(out) &^ 3
	if n > 0 {
		maxWhichNEON(&out[0], &chosen[0], &x[0], which, n)
	}
	maxWhichPortable(out[n:], chosen[n:], x[n:], which)
}
