package f32

import "math"

func activatePortable(f Function, dst, x []float32, slope float32) {
	for i, v := range x {
		dst[i] = f.at(v, slope)
	}
}

func activateGradPortable(f Function, dx, dy, kept []float32, slope float32) {
	for i, v := range kept {
		dx[i] = f.derivative(v, slope) * dy[i]
	}
}

func swigluPortable(dst, gate, up []float32) {
	for i, v := range gate {
		dst[i] = SiLU.at(v, 0) * up[i]
	}
}

func swigluGradPortable(dgate, dup, gate, up, dz []float32) {
	for i, v := range gate {
		g, u := dz[i]*up[i]*SiLU.derivative(v, 0), dz[i]*SiLU.at(v, 0)
		dgate[i], dup[i] = g, u
	}
}

// at is f(x).
func (f Function) at(v, slope float32) float32 {
	x := float64(v)
	switch f {
	case GELU:
		return float32(limited(x) * math.Erfc(-x/math.Sqrt2) / 2)
	case GELUTanh:
		return float32(limited(x) * logistic(geluTwice*(x+geluCubic*x*x*x)))
	case SiLU:
		return float32(limited(x) * logistic(x))
	case Sigmoid:
		return float32(logistic(x))
	case Tanh:
		return float32(math.Tanh(x))
	case LeakyReLU:
		if v > 0 {
			return v
		}
		return slope * v
	case ReLU6:
		return min(max(v, 0), 6)
	default: // Softplus
		return float32(max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))))
	}
}

// derivative is f′ where its argument, or for some functions its result, is v.
func (f Function) derivative(v, slope float32) float32 {
	x := float64(v)
	switch f {
	case GELU:
		x = nearer(x)
		return float32(math.Erfc(-x/math.Sqrt2)/2 + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi))
	case GELUTanh:
		x = nearer(x)
		u := geluTwice * (x + geluCubic*x*x*x)
		return float32(logistic(u) * (1 + x*logistic(-u)*geluTwice*(1+3*geluCubic*x*x)))
	case SiLU:
		x = nearer(x)
		return float32(logistic(x) * (1 + x*logistic(-x)))
	case Sigmoid:
		return float32(x * (1 - x))
	case Tanh:
		return float32(1 - x*x)
	case LeakyReLU:
		if v > 0 {
			return 1
		}
		if v != v {
			return v
		}
		return slope
	case ReLU6:
		if v > 0 && v < 6 {
			return 1
		}
		if v != v {
			return v
		}
		return 0
	default: // Softplus
		return float32(logistic(x))
	}
}

const (
	// geluTwice is 2·√(2/π): ½(1+tanh u) is σ(2u).
	geluTwice = 1.5957691216057308
	geluCubic = 0.044715
)

// At and beyond furthest the functions are at their limits, in float32.
const furthest = 200

// limited is x, not below −furthest, where a product with a factor that vanishes is 0.
func limited(x float64) float64 { return max(x, -furthest) }

// nearer is x between −furthest and furthest.
func nearer(x float64) float64 { return min(max(x, -furthest), furthest) }

func logistic(x float64) float64 {
	e := math.Exp(-math.Abs(x))
	if x < 0 {
		return e / (1 + e)
	}
	return 1 / (1 + e)
}
