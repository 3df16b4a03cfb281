package pixel

// Fraction is how many bits of a weight are behind the point.
const Fraction = 22

// half is what rounds a sum of weighted pixels.
const half = 1 << (Fraction - 1)

// clip rounds a sum of weighted pixels to 8 bits.
func clip(sum int32) uint8 { return uint8(min(255, max(0, sum>>Fraction))) }

// A Weights makes a row of pixels of one that has more or fewer. Pixel i is the sum of Count[i]
// pixels from First[i] on, times Values[i·Each:].
type Weights struct {
	First, Count []int32
	Values       []int32
	Each         int
}

// Across makes len(w.First) pixels of three channels of each of some rows. Row y of src begins at
// y·srcStride, that of dst at y·dstStride.
func Across(dst []uint8, dstStride int, src []uint8, srcStride, rows int, w *Weights) {
	n := len(w.First)
	y := 0
	if fast && n > 0 {
		// The assembly reads one byte more than the row has, so it leaves the last rows.
		last := int(w.First[n-1]+w.Count[n-1]) * 3
		for ; y+2 < rows; y += 2 {
			d0, d1 := dst[y*dstStride:][:3*n], dst[(y+1)*dstStride:][:3*n]
			s0, s1 := src[y*srcStride:][:last+1], src[(y+1)*srcStride:][:last+1]
			acrossAVX2(&d0[0], &d1[0], &s0[0], &s1[0], &w.First[0], &w.Count[0], n, &w.Values[0], w.Each)
		}
	}
	for ; y < rows; y++ {
		across(dst[y*dstStride:][:3*n], src[y*srcStride:], w)
	}
}

func across(dst, src []uint8, w *Weights) {
	for x, first := range w.First {
		values := w.Values[x*w.Each:][:w.Count[x]]
		pixels := src[first*3:][:len(values)*3]
		r, g, b := int32(half), int32(half), int32(half)
		for i, v := range values {
			p := pixels[i*3:][:3]
			r += v * int32(p[0])
			g += v * int32(p[1])
			b += v * int32(p[2])
		}
		p := dst[x*3:][:3]
		p[0], p[1], p[2] = clip(r), clip(g), clip(b)
	}
}

// AcrossGrey is Across for one row of one channel.
func AcrossGrey(dst, src []uint8, w *Weights) {
	for x, first := range w.First {
		values := w.Values[x*w.Each:][:w.Count[x]]
		pixels := src[first:][:len(values)]
		sum := int32(half)
		for i, v := range values {
			sum += v * int32(pixels[i])
		}
		dst[x] = clip(sum)
	}
}

// Down makes one row of rows that begin stride bytes apart, and have the length of dst, times their
// weights.
func Down(dst, src []uint8, stride int, weights []int32) {
	if n := len(dst); fast && n >= 32 && len(weights) > 0 {
		_ = src[(len(weights)-1)*stride+n-1]
		downAVX2(&dst[0], &src[0], stride, n, &weights[0], len(weights))
		return
	}
	down(dst, src, stride, weights)
}

func down(dst, src []uint8, stride int, weights []int32) {
	const wide = 16
	for from := 0; from < len(dst); from += wide {
		var sums [wide]int32
		for i := range sums {
			sums[i] = half
		}
		some := min(wide, len(dst)-from)
		for i, v := range weights {
			row := src[i*stride+from:][:some]
			if len(row) == wide {
				row := (*[wide]uint8)(row)
				for j := range sums {
					sums[j] += v * int32(row[j])
				}
				continue
			}
			for j, p := range row {
				sums[j] += v * int32(p)
			}
		}
		for j, s := range sums[:some] {
			dst[from+j] = clip(s)
		}
	}
}
