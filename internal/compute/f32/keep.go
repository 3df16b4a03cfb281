package f32

// Keep sets dst to the factors of dropout: dst[i] is keep if the upper half of the 64 bits that
// number key + first + i·step is mixed to is at least threshold, else 0. It is op.DropoutKeep of the
// elements first, first+step, ...
func Keep(dst []float32, key, first, step, threshold uint64, keep float32) {
	from := key + first
	n := keepWide(kernels.tile.path, dst, from, step, threshold, keep)
	keepPortable(dst[n:], from+uint64(n)*step, step, threshold, keep)
}

// Drop is dropout of x, whose elements are numbered from first on: dst[i] is scale·x[i] where Keep
// keeps, with a step of 1, and else 0; a NaN stays. dst may be x.
func Drop(dst, x []float32, key, first, threshold uint64, scale float32) {
	same2("Drop", len(dst), len(dst), len(x))
	from := key + first
	n := dropWide(kernels.tile.path, dst, x, from, threshold, scale)
	dropPortable(dst[n:], x[n:], from+uint64(n), threshold, scale)
}

func dropPortable(dst, x []float32, from, threshold uint64, scale float32) {
	for i, v := range x {
		switch {
		case kept(from+uint64(i), threshold):
			dst[i] = v * scale
		case v != v:
			dst[i] = v
		default:
			dst[i] = 0
		}
	}
}

// kept mixes a number (SplitMix64: Steele, Lea and Flood, 2014) and compares.
func kept(z, threshold uint64) bool {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return (z^z>>31)>>32 >= threshold
}

func keepPortable(dst []float32, from, step, threshold uint64, keep float32) {
	for i := range dst {
		if dst[i] = 0; kept(from, threshold) {
			dst[i] = keep
		}
		from += step
	}
}
