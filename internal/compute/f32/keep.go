package f32

// Keep sets dst to the factors of dropout: dst[i] is keep if the upper half of the 64 bits that
// number key + first + i·step is mixed to is at least threshold, else 0. It is op.DropoutKeep of the
// elements first, first+step, ...
func Keep(dst []float32, key, first, step, threshold uint64, keep float32) {
	from := key + first
	n := keepWide(kernels.tile.path, dst, from, step, threshold, keep)
	keepPortable(dst[n:], from+uint64(n)*step, step, threshold, keep)
}

func keepPortable(dst []float32, from, step, threshold uint64, keep float32) {
	for i := range dst {
		// SplitMix64 (Steele, Lea and Flood, 2014).
		z := from + 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		if dst[i] = 0; (z^z>>31)>>32 >= threshold {
			dst[i] = keep
		}
		from += step
	}
}
