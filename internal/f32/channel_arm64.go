package f32

func channelSums(_ Path, sum, sumSq, x []float32, c int) { channelSumsPortable(sum, sumSq, x, c) }

func channelSumsAround(_ Path, sum, sumSq, x, center []float32, c int) {
	channelSumsAroundPortable(sum, sumSq, x, center, c)
}

func channelGradSums(_ Path, sumDy, sumDyX, dy, x, y, center []float32, c int) {
	channelGradSumsPortable(sumDy, sumDyX, dy, x, y, center, c)
}

func scaleShift(_ Path, y, x, res, scale, shift []float32, relu bool) {
	scaleShiftPortable(y, x, res, scale, shift, relu)
}

func normGrad(_ Path, dx, dy, x, y, p, q, r []float32) { normGradPortable(dx, dy, x, y, p, q, r) }
