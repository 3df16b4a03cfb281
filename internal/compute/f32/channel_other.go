//go:build !amd64 && !arm64

package f32

func channelSums[E element](_ Path, sum, sumSq []float32, x []E, c int) {
	channelSumsPortable(sum, sumSq, x, c)
}

func channelSumsAround[E element](_ Path, sum, sumSq []float32, x []E, center []float32, c int) {
	channelSumsAroundPortable(sum, sumSq, x, center, c)
}

func channelGradSums[E element](_ Path, sumDy, sumDyX []float32, dy, x, y []E, center []float32, c int) {
	channelGradSumsPortable(sumDy, sumDyX, dy, x, y, center, c)
}

func scaleShift[E element](_ Path, y, x, res []E, scale, shift []float32, relu bool) {
	scaleShiftPortable(y, x, res, scale, shift, relu)
}

func normGrad[E element](_ Path, dx, dy, x, y []E, p, q, r []float32) {
	normGradPortable(dx, dy, x, y, p, q, r)
}
