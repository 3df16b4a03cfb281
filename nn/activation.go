package nn

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
)

// GELU is x·Φ(x), Φ being the normal distribution's function (Hendrycks and Gimpel 2016), of each
// number of x, of any shape. The approximation is "none", which is Φ(x) = ½(1+erf(x/√2)), as
// PyTorch's nn.GELU() and Hugging Face's "gelu" have it, or "tanh", which is
// ½x(1+tanh(√(2/π)(x+0.044715x³))), as GPT-2, Hugging Face's "gelu_new" and "gelu_pytorch_tanh" have
// it. They differ by up to 4.7e-4: a model must have the one that it was trained with.
func GELU(x *gorgonia.Node, approximation string) *gorgonia.Node {
	switch approximation {
	case "none":
		return activation(x, op.GELU)
	case "tanh":
		return activation(x, op.GELUTanh)
	}
	panic(fmt.Sprintf("nn: GELU: approximation is %q, want \"none\" or \"tanh\"", approximation))
}

// SiLU is x·σ(x), σ(x) = 1/(1+exp(−x)), of each number of x, of any shape; also known as Swish.
func SiLU(x *gorgonia.Node) *gorgonia.Node { return activation(x, op.SiLU) }

// Sigmoid is σ(x) = 1/(1+exp(−x)) of each number of x, of any shape. A loss of probabilities is
// better computed from what is in front of it: see BinaryCrossEntropy.
func Sigmoid(x *gorgonia.Node) *gorgonia.Node { return activation(x, op.Sigmoid) }

// Tanh is the hyperbolic tangent of each number of x, of any shape.
func Tanh(x *gorgonia.Node) *gorgonia.Node { return activation(x, op.Tanh) }

// LeakyReLU is x where x > 0 and slope·x elsewhere, of each number of x, of any shape. The slope is
// at least 0; PyTorch's default is 0.01. The derivative at 0 is the slope.
func LeakyReLU(x *gorgonia.Node, slope float64) *gorgonia.Node {
	return apply("LeakyReLU", &op.Activation{Function: op.LeakyReLU, Slope: slope}, x)
}

// ReLU6 is min(max(x,0),6) of each number of x, of any shape. The derivative at 0 and at 6 is 0.
func ReLU6(x *gorgonia.Node) *gorgonia.Node { return activation(x, op.ReLU6) }

// Softplus is log(1+exp(x)) of each number of x, of any shape.
func Softplus(x *gorgonia.Node) *gorgonia.Node { return activation(x, op.Softplus) }

// SwiGLU is silu(gate)·up, element by element, of two nodes of one shape: the middle of Llama's
// feed-forward blocks (Shazeer 2020), where both are products of the block's input.
func SwiGLU(gate, up *gorgonia.Node) *gorgonia.Node { return apply("SwiGLU", &op.SwiGLU{}, gate, up) }

func activation(x *gorgonia.Node, f op.Function) *gorgonia.Node {
	return apply(string(f), &op.Activation{Function: f}, x)
}
