package op

import (
	"fmt"
	"hash"
	"math"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A Function is a function of one number that an Activation computes. σ is the logistic function,
// Φ the normal distribution's, and a the Activation's slope.
type Function string

// The functions.
const (
	GELU      Function = "GELU"      // x·Φ(x), Φ(x) = ½(1+erf(x/√2))
	GELUTanh  Function = "GELUTanh"  // ½x(1+tanh(√(2/π)(x+0.044715x³)))
	SiLU      Function = "SiLU"      // x·σ(x), σ(x) = 1/(1+exp(−x))
	Sigmoid   Function = "Sigmoid"   // σ(x)
	Tanh      Function = "Tanh"      // tanh x
	LeakyReLU Function = "LeakyReLU" // x where x > 0, else a·x
	ReLU6     Function = "ReLU6"     // min(max(x,0),6)
	Softplus  Function = "Softplus"  // log(1+exp(x))
)

// Activation is y = f(x) of each number by itself. At infinite x the result is f's limit: GELU and
// SiLU of −∞ are 0. A NaN stays.
//
// Arguments: x of any shape. Result: y like x. Gradient: ActivationGrad of x or of y, whichever f's
// derivative is simpler in.
type Activation struct {
	traits
	Function Function

	// Slope is LeakyReLU's: at least 0 and finite.
	Slope float64
}

func (o *Activation) Arity() int            { return 1 }
func (o *Activation) Type() hm.Type         { return same(1) }
func (o *Activation) String() string        { return fmt.Sprintf("Activation{%s %g}", o.Function, o.Slope) }
func (o *Activation) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Activation) Hashcode() uint32      { return hashcode(o) }
func (o *Activation) DiffWRT(int) []bool    { return []bool{true} }

func (o *Activation) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	if err := o.Function.check(o, o.Slope); err != nil {
		return nil, err
	}
	return likeAll(o, ds, 1)
}

// check is an error if there is no such function, or not with this slope.
func (f Function) check(o gorgonia.Op, slope float64) error {
	switch f {
	case GELU, GELUTanh, SiLU, Sigmoid, Tanh, ReLU6, Softplus:
		if slope != 0 {
			return fmt.Errorf("op: %v: slope is %g, and %s has none", o, slope, f)
		}
	case LeakyReLU:
		if !(slope >= 0) || math.IsInf(slope, 1) {
			return fmt.Errorf("op: %v: slope is %g, want a finite number of at least 0", o, slope)
		}
	default:
		return fmt.Errorf("op: %v: no function is called %q", o, string(f))
	}
	return nil
}

// KeepsResult reports whether the gradient is computed from y, so that x need not be kept.
func (f Function) KeepsResult() bool {
	switch f {
	case Sigmoid, Tanh, LeakyReLU, ReLU6:
		return true
	}
	return false
}

// at is f(x) in float64.
func (f Function) at(x, slope float64) float64 {
	switch f {
	case GELU:
		return times(x, normal(x))
	case GELUTanh:
		return times(x, logistic(2*geluInner(x)))
	case SiLU:
		return times(x, logistic(x))
	case Sigmoid:
		return logistic(x)
	case Tanh:
		return math.Tanh(x)
	case LeakyReLU:
		if x > 0 {
			return x
		}
		return slope * x
	case ReLU6:
		return min(max(x, 0), 6)
	default: // Softplus
		return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
	}
}

// derivative is f′ where x, or y if the function keeps its result, is kept.
func (f Function) derivative(kept, slope float64) float64 {
	switch f {
	case GELU:
		return normal(kept) + times(kept, math.Exp(-kept*kept/2)/math.Sqrt(2*math.Pi))
	case GELUTanh:
		s := logistic(2 * geluInner(kept))
		return s + times(kept, 2*s*logistic(-2*geluInner(kept))*math.Sqrt(2/math.Pi)*(1+3*geluCubic*kept*kept))
	case SiLU:
		return logistic(kept) + times(kept, logistic(kept)*logistic(-kept))
	case Sigmoid:
		return kept * (1 - kept)
	case Tanh:
		return 1 - kept*kept
	case LeakyReLU:
		switch {
		case kept > 0:
			return 1
		case kept != kept:
			return kept
		}
		return slope
	case ReLU6:
		switch {
		case kept > 0 && kept < 6:
			return 1
		case kept != kept:
			return kept
		}
		return 0
	default: // Softplus
		return logistic(kept)
	}
}

const geluCubic = 0.044715

func geluInner(x float64) float64 { return math.Sqrt(2/math.Pi) * (x + geluCubic*x*x*x) }

func normal(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

func logistic(x float64) float64 {
	e := math.Exp(-math.Abs(x))
	if x < 0 {
		return e / (1 + e)
	}
	return 1 / (1 + e)
}

// times is x·factor, where a factor that vanishes faster than x grows wins: at infinity the product
// is 0.
func times(x, factor float64) float64 {
	if math.IsInf(x, 0) && !(factor > 0.5) {
		return 0
	}
	return x * factor
}

func (o *Activation) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, activation[float32], activation[float64])
}

func activation[T float](o *Activation, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	for i, v := range numbers[T](in[0]) {
		y[i] = T(o.Function.at(float64(v), o.Slope))
	}
	return out, nil
}

func (o *Activation) SymDiff(in gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	kept := in[0]
	if o.Function.KeepsResult() {
		kept = out
	}
	dx, err := Apply(&ActivationGrad{Function: o.Function, Slope: o.Slope}, kept, grad)
	return gorgonia.Nodes{dx}, err
}

// ActivationGrad is dx = f′(x)·dy. At its kinks LeakyReLU has the slope (at 0), and ReLU6 has 0 (at
// 0 and at 6).
//
// Arguments: x, or y where Function.KeepsResult; dy like it. Result: dx like it.
type ActivationGrad struct {
	gradient
	Function Function
	Slope    float64
}

func (o *ActivationGrad) Arity() int    { return 2 }
func (o *ActivationGrad) Type() hm.Type { return same(2) }
func (o *ActivationGrad) String() string {
	return fmt.Sprintf("ActivationGrad{%s %g}", o.Function, o.Slope)
}
func (o *ActivationGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *ActivationGrad) Hashcode() uint32      { return hashcode(o) }

func (o *ActivationGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	if err := o.Function.check(o, o.Slope); err != nil {
		return nil, err
	}
	return likeAll(o, ds, 2)
}

func (o *ActivationGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, activationGrad[float32], activationGrad[float64])
}

func activationGrad[T float](o *ActivationGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, dx := dense[T](shape)
	dy := numbers[T](in[1])
	for i, v := range numbers[T](in[0]) {
		dx[i] = T(o.Function.derivative(float64(v), o.Slope) * float64(dy[i]))
	}
	return out, nil
}
