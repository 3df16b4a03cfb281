package f32

// The loops here take rows of stride c of which the first len(sum) values count; x may end with the
// last row's.

func channelSumsPortable[E element](sum, sumSq []float32, x []E, c int) {
	n := len(sum)
	sumSq = sumSq[:n]
	for i := 0; i+n <= len(x); i += c {
		for j, e := range x[i : i+n] {
			v := load(e)
			sum[j] += v
			sumSq[j] += v * v
		}
	}
}

func channelSumsAroundPortable[E element](sum, sumSq []float32, x []E, center []float32, c int) {
	n := len(sum)
	for i := 0; i+n <= len(x); i += c {
		for j, e := range x[i : i+n] {
			v := load(e) - center[j]
			sum[j] += v
			sumSq[j] += v * v
		}
	}
}

func channelGradSumsPortable[E element](sumDy, sumDyX []float32, dy, x, y []E, center []float32, c int) {
	n := len(sumDy)
	for i := 0; i+n <= len(dy); i += c {
		for j, d := range dy[i : i+n] {
			if y != nil {
				d = throughReLUOf(d, y[i+j])
			}
			v := load(d)
			sumDy[j] += v
			sumDyX[j] += v * (load(x[i+j]) - center[j])
		}
	}
}

func scaleShiftPortable[E element](y, x, res []E, scale, shift []float32, relu bool) {
	c := len(scale)
	for i := 0; i < len(y); i += c {
		out, in := y[i:i+c], x[i:i+c]
		for j := range out {
			v := load(in[j])*scale[j] + shift[j]
			if res != nil {
				v += load(res[i+j])
			}
			if relu && v < 0 {
				v = 0
			}
			out[j] = round[E](v)
		}
	}
}

func normGradPortable[E element](dx, dy, x, y []E, p, q, r []float32) {
	c := len(p)
	for i := 0; i < len(dx); i += c {
		for j := range c {
			d := dy[i+j]
			if y != nil {
				d = throughReLUOf(d, y[i+j])
			}
			dx[i+j] = round[E](p[j]*load(d) + q[j]*load(x[i+j]) + r[j])
		}
	}
}
