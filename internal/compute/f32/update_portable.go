package f32

import "math"

// In these loops a conversion to float32 around a product keeps the compiler from fusing it with
// the sum that follows, which it may do on some machines.

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// limited is g before it is shrunk.
func (u *Update) limited(d float32) float32 {
	d *= u.Scale
	if d > u.Clip {
		d = u.Clip
	}
	if d < -u.Clip {
		d = -u.Clip
	}
	return d
}

func (u *Update) input(d float32) float32 { return float32(u.limited(d) * u.Shrink) }

// decayed is g + λw.
func (u *Update) decayed(d, w float32) float32 { return u.input(d) + float32(u.Decay*w) }

// bounded is h cut to ±squarable, or NaN if h is not finite.
func bounded(h float32) float32 {
	x := h
	if x > squarable {
		x = squarable
	}
	if x < -squarable {
		x = -squarable
	}
	return x + (h - h)
}

// saturated is a sum of squares that stays finite.
func saturated(s float32) float32 {
	if s > math.MaxFloat32 {
		return math.MaxFloat32
	}
	return s
}

func (u *Update) ascendPortable(value, grad []float32) {
	// The compiler keeps a copy in registers.
	c := *u
	grad = grad[:len(value)]
	for i, w := range value {
		value[i] = w + float32(c.Rate*c.input(grad[i]))
	}
}

func (u *Update) sgdPortable(value, grad []float32) {
	c := *u
	grad = grad[:len(value)]
	for i, w := range value {
		value[i] = w - float32(c.Rate*c.decayed(grad[i], w))
	}
}

func (u *Update) momentumPortable(value, grad, m []float32) {
	c := *u
	grad, m = grad[:len(value)], m[:len(value)]
	for i, w := range value {
		v := float32(c.Momentum*m[i]) - float32(c.Rate*c.decayed(grad[i], w))
		m[i] = v
		value[i] = w + float32(c.Factor*v)
	}
}

func (u *Update) nesterovPortable(value, grad, m []float32) {
	c := *u
	grad, m = grad[:len(value)], m[:len(value)]
	for i, w := range value {
		d := float32(c.Rate * c.decayed(grad[i], w))
		v := float32(c.Momentum*m[i]) - d
		m[i] = v
		value[i] = w + float32(c.Factor*float32(c.Momentum*v)) - float32(c.Factor*d)
	}
}

func (u *Update) adamPortable(value, grad, mean, variance []float32) {
	c := *u
	grad, mean, variance = grad[:len(value)], mean[:len(value)], variance[:len(value)]
	for i, w := range value {
		g := bounded(c.decayed(grad[i], w))
		m := float32(c.Beta1*mean[i]) + float32(c.Rest1*g)
		v := float32(c.Beta2*variance[i]) + float32(c.Rest2*float32(g*g))
		mean[i], variance[i] = m, v
		value[i] = float32(c.Keep*w) - float32(c.Rate*m)/(float32(sqrt(v)*c.Root)+c.Epsilon)
	}
}

func (u *Update) adagradPortable(value, grad, sum []float32) {
	c := *u
	grad, sum = grad[:len(value)], sum[:len(value)]
	for i, w := range value {
		g := bounded(c.decayed(grad[i], w))
		s := saturated(sum[i] + float32(g*g))
		sum[i] = s
		value[i] = w - float32(c.Rate*g)/(sqrt(s)+c.Epsilon)
	}
}

func (u *Update) rmspropPortable(value, grad, square, mean, m []float32) {
	c := *u
	grad, square = grad[:len(value)], square[:len(value)]
	for i, w := range value {
		g := bounded(c.decayed(grad[i], w))
		s := float32(c.Beta2*square[i]) + float32(c.Rest2*float32(g*g))
		square[i] = s
		if mean != nil {
			a := float32(c.Beta2*mean[i]) + float32(c.Rest2*g)
			mean[i] = a
			s -= float32(a * a)
			if s < 0 {
				s = 0
			}
		}
		x := float32(c.Rate*g) / (sqrt(s) + c.Epsilon)
		if m == nil {
			value[i] = w - x
			continue
		}
		v := float32(c.Momentum*m[i]) - x
		m[i] = v
		value[i] = w + float32(c.Factor*v)
	}
}

func (u *Update) ftrlPortable(value, grad, z, n []float32) {
	c := *u
	grad, z, n = grad[:len(value)], z[:len(value)], n[:len(value)]
	for i, w := range value {
		g := bounded(c.input(grad[i]))
		squares := saturated(n[i] + float32(g*g))
		root := sqrt(squares)
		s := z[i] + g - float32(float32((root-sqrt(n[i]))*c.Inverse)*w)
		z[i], n[i] = s, squares
		near := s
		if near > c.L1 {
			near = c.L1
		}
		if near < -c.L1 {
			near = -c.L1
		}
		value[i] = (near - s) / (float32((c.Beta+root)*c.Inverse) + c.Decay)
	}
}

// lambStep is r and the new mean and variance.
func (u *Update) lambStep(w, d, mean, variance float32) (r, m, v float32) {
	g := bounded(u.input(d))
	m = float32(u.Beta1*mean) + float32(u.Rest1*g)
	v = float32(u.Beta2*variance) + float32(u.Rest2*float32(g*g))
	return float32(u.Correction*m)/(float32(sqrt(v)*u.Root)+u.Epsilon) + float32(u.Decay*w), m, v
}

func (u *Update) lambPortable(value, grad, mean, variance []float32) {
	c := *u
	grad, mean, variance = grad[:len(value)], mean[:len(value)], variance[:len(value)]
	for i, w := range value {
		var r float32
		r, mean[i], variance[i] = c.lambStep(w, grad[i], mean[i], variance[i])
		value[i] = w - float32(c.Rate*r)
	}
}

func (u *Update) lambSquaresPortable(sums *[numSums]float64, value, grad, mean, variance []float32) {
	c := *u
	grad, mean, variance = grad[:len(value)], mean[:len(value)], variance[:len(value)]
	for i, w := range value {
		r, _, _ := c.lambStep(w, grad[i], mean[i], variance[i])
		sums[i%numSums] += float64(r) * float64(r)
	}
}

func (u *Update) squaresPortable(sums *[numSums]float64, grad []float32) {
	c := *u
	for i, d := range grad {
		x := float64(c.limited(d))
		sums[i%numSums] += x * x
	}
}
