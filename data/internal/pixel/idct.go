package pixel

// The inverse transform is that of Loeffler, Ligtenberg and Moschytz (Practical fast 1-D DCT
// algorithms with 11 multiplications, ICASSP 1989), with 12 multiplications, in integers of 13
// fraction bits as in libjpeg's islow: columns first, which keep 2 more bits.
const (
	fractionBits = 13
	moreBits     = 2

	c0298 = 2446
	c0390 = 3196
	c0541 = 4433
	c0765 = 6270
	c0899 = 7373
	c1175 = 9633
	c1501 = 12299
	c1847 = 15137
	c1961 = 16069
	c2053 = 16819
	c2562 = 20995
	c3072 = 25172
)

// clamp makes a sample of what is 128 below it.
func clamp(v int32) uint8 {
	v += 128
	if uint32(v) > 255 {
		v = ^(v >> 31)
	}
	return uint8(v)
}

// Transform writes the samples of a block of coefficients, in rows: 8 rows of 8 samples to dst.
func Transform(dst []uint8, stride int, block *[64]int16) {
	if fast {
		_ = dst[7*stride+7]
		transformAVX2(&dst[0], stride, &block[0])
		return
	}
	transform(dst, stride, block)
}

// Fill is Transform of a block that has only a mean.
func Fill(dst []uint8, stride int, dc int16) {
	v := clamp((int32(dc)<<moreBits + 1<<(moreBits+2)) >> (moreBits + 3))
	w := uint64(v) * 0x0101010101010101
	for y := range 8 {
		row := (*[8]uint8)(dst[y*stride:])
		for i := range row {
			row[i] = uint8(w)
		}
	}
}

// transform is Transform in plain Go.
func transform(dst []uint8, stride int, block *[64]int16) {
	var between [64]int32
	for x := range 8 {
		s1, s2, s3, s4 := int32(block[8+x]), int32(block[16+x]), int32(block[24+x]), int32(block[32+x])
		s5, s6, s7 := int32(block[40+x]), int32(block[48+x]), int32(block[56+x])
		s0 := int32(block[x])
		if s1|s2|s3|s4|s5|s6|s7 == 0 {
			if s0 == 0 {
				continue
			}
			v := s0 << moreBits
			between[x], between[8+x], between[16+x], between[24+x] = v, v, v, v
			between[32+x], between[40+x], between[48+x], between[56+x] = v, v, v, v
			continue
		}
		e0, e1, e2, e3, o0, o1, o2, o3 := butterfly(s0, s1, s2, s3, s4, s5, s6, s7)
		const shift, round = fractionBits - moreBits, 1 << (fractionBits - moreBits - 1)
		between[x], between[56+x] = (e0+o3+round)>>shift, (e0-o3+round)>>shift
		between[8+x], between[48+x] = (e1+o2+round)>>shift, (e1-o2+round)>>shift
		between[16+x], between[40+x] = (e2+o1+round)>>shift, (e2-o1+round)>>shift
		between[24+x], between[32+x] = (e3+o0+round)>>shift, (e3-o0+round)>>shift
	}
	for y := range 8 {
		s := (*[8]int32)(between[y*8:])
		to := (*[8]uint8)(dst[y*stride:])
		e0, e1, e2, e3, o0, o1, o2, o3 := butterfly(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7])
		const shift, round = fractionBits + moreBits + 3, 1 << (fractionBits + moreBits + 2)
		to[0], to[7] = clamp((e0+o3+round)>>shift), clamp((e0-o3+round)>>shift)
		to[1], to[6] = clamp((e1+o2+round)>>shift), clamp((e1-o2+round)>>shift)
		to[2], to[5] = clamp((e2+o1+round)>>shift), clamp((e2-o1+round)>>shift)
		to[3], to[4] = clamp((e3+o0+round)>>shift), clamp((e3-o0+round)>>shift)
	}
}

// butterfly returns the even and the odd part of eight values: value i is e[i] + o[3−i], value 7−i
// is e[i] − o[3−i].
func butterfly(s0, s1, s2, s3, s4, s5, s6, s7 int32) (e0, e1, e2, e3, o0, o1, o2, o3 int32) {
	z := (s2 + s6) * c0541
	low, high := z-s6*c1847, z+s2*c0765
	sum, diff := (s0+s4)<<fractionBits, (s0-s4)<<fractionBits
	e0, e3 = sum+high, sum-high
	e1, e2 = diff+low, diff-low

	z1, z2, z3, z4 := s7+s1, s5+s3, s7+s3, s5+s1
	z5 := (z3 + z4) * c1175
	z1, z2 = -z1*c0899, -z2*c2562
	z3, z4 = z5-z3*c1961, z5-z4*c0390
	o0 = s7*c0298 + z1 + z3
	o1 = s5*c2053 + z2 + z4
	o2 = s3*c3072 + z2 + z3
	o3 = s1*c1501 + z1 + z4
	return
}
