package f32

// The loops here take rows of stride c of which the first len(sum) values count; x may end with the last row's.

func channelSumsPortable(sum, sumSq, x []float32, c int) {
	n := len(sum)
	sumSq = sumSq[:n]
	for i := 0; i+n <= len(x); i += c {
		row := x[i : i+n]
		for j, v := range row {
			sum[j] += v
			sumSq[j] += v * v
		}
	}
}

func channelSumsAroundPortable(sum, sumSq, x, center []float32, c int) {
	n := len(sum)
	for i := 0; i+n <= len(x); i += c {
		for j, v := range x[i : i+n] {
			v -= center[j]
			sum[j] += v
			sumSq[j] += v * v
		}
	}
}

func channelGradSumsPortable(sumDy, sumDyX, dy, x, y, center []float32, c int) {
	n := len(sumDy)
	for i := 0; i+n <= len(dy); i += c {
		for j, d := range dy[i : i+n] {
			if y != nil {
				d = throughReLU(d, y[i+j])
			}
			sumDy[j] += d
			sumDyX[j] += d * (x[i+j] - center[j])
		}
	}
}

func scaleShiftPortable(y, x, res, scale, shift []float32, relu bool) {
	c := len(scale)
	for i := 0; i < len(y); i += c {
		out, in := y[i:i+c], x[i:i+c]
		for j := range out {
			v := in[j]*scale[j] + shift[j]
			if res != nil {
				v += res[i+j]
			}
			if relu && v < 0 {
				v = 0
			}
			out[j] = v
		}
	}
}

func normGradPortable(dx, dy, x, y, p, q, r []float32) {
	c := len(p)
	for i := 0; i < len(dx); i += c {
		for j := range c {
			d := dy[i+j]
			if y != nil {
				d = throughReLU(d, y[i+j])
			}
			dx[i+j] = p[j]*d + q[j]*x[i+j] + r[j]
		}
	}
}
