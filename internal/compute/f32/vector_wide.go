//go:build amd64 || arm64

package f32

// The assembly does whole vectors; what is left over at the end goes through the portable loops,
// which give the same results up to fused multiply-add.

func binary(lanes int, wide func(dst, a, b *float32, n int), tail func(dst, a, b []float32)) func(dst, a, b []float32) {
	return func(dst, a, b []float32) {
		n := len(dst) &^ (lanes - 1)
		if n > 0 {
			wide(&dst[0], &a[0], &b[0], n)
		}
		tail(dst[n:], a[n:], b[n:])
	}
}

func unary(lanes int, wide func(dst, x *float32, n int), tail func(dst, x []float32)) func(dst, x []float32) {
	return func(dst, x []float32) {
		n := len(dst) &^ (lanes - 1)
		if n > 0 {
			wide(&dst[0], &x[0], n)
		}
		tail(dst[n:], x[n:])
	}
}

func scaled(lanes int, wide func(dst *float32, alpha float32, x *float32, n int), tail func(dst []float32, alpha float32, x []float32)) func(dst []float32, alpha float32, x []float32) {
	return func(dst []float32, alpha float32, x []float32) {
		n := len(dst) &^ (lanes - 1)
		if n > 0 {
			wide(&dst[0], alpha, &x[0], n)
		}
		tail(dst[n:], alpha, x[n:])
	}
}

func blended(lanes int, wide func(dst *float32, alpha float32, x *float32, beta float32, n int)) func(dst []float32, alpha float32, x []float32, beta float32) {
	return func(dst []float32, alpha float32, x []float32, beta float32) {
		n := len(dst) &^ (lanes - 1)
		if n > 0 {
			wide(&dst[0], alpha, &x[0], beta, n)
		}
		axpbyPortable(dst[n:], alpha, x[n:], beta)
	}
}

func sumOf(lanes int, wide func(x *float32, n int) float32) func(x []float32) float32 {
	return func(x []float32) float32 {
		n := len(x) &^ (lanes - 1)
		if n == 0 {
			return sumPortable(x)
		}
		return wide(&x[0], n) + sumPortable(x[n:])
	}
}

func dotOf(lanes int, wide func(x, y *float32, n int) float32) func(x, y []float32) float32 {
	return func(x, y []float32) float32 {
		n := len(x) &^ (lanes - 1)
		if n == 0 {
			return dotPortable(x, y)
		}
		return wide(&x[0], &y[0], n) + dotPortable(x[n:], y[n:])
	}
}

func maxOf(lanes int, wide func(x *float32, n int) float32) func(x []float32) float32 {
	return func(x []float32) float32 {
		n := len(x) &^ (lanes - 1)
		if n == 0 {
			return maxPortable(x)
		}
		m := wide(&x[0], n)
		if n < len(x) {
			m = max(m, maxPortable(x[n:]))
		}
		return m
	}
}

func narrowed(lanes int, wide func(dst *uint16, x *float32, n int), tail func(dst []uint16, x []float32)) func(dst []uint16, x []float32) {
	return func(dst []uint16, x []float32) {
		n := len(dst) &^ (lanes - 1)
		if n > 0 {
			wide(&dst[0], &x[0], n)
		}
		tail(dst[n:], x[n:])
	}
}

func widened(lanes int, wide func(dst *float32, x *uint16, n int), tail func(dst []float32, x []uint16)) func(dst []float32, x []uint16) {
	return func(dst []float32, x []uint16) {
		n := len(dst) &^ (lanes - 1)
		if n > 0 {
			wide(&dst[0], &x[0], n)
		}
		tail(dst[n:], x[n:])
	}
}
