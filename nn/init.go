package nn

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"gorgonia.org/tensor"

	"github.com/paragon-train/paragon/internal/compute/shm"
)

// An Init fills values, a parameter of the given shape in row-major order, with
// its initial numbers. r is the parameter's own stream; Init takes randomness
// from nowhere else.
type Init func(r *rand.Rand, shape []int, values []float64)

// Zeros is Constant(0).
func Zeros() Init { return Constant(0) }

// Ones is Constant(1).
func Ones() Init { return Constant(1) }

// Constant gives every element the value c.
func Constant(c float64) Init {
	return func(_ *rand.Rand, _ []int, values []float64) {
		for i := range values {
			values[i] = c
		}
	}
}

// Uniform draws from [−bound, bound).
func Uniform(bound float64) Init {
	return func(r *rand.Rand, _ []int, values []float64) {
		for i := range values {
			values[i] = (2*r.Float64() - 1) * bound
		}
	}
}

// Normal draws from the normal distribution with mean 0 and the given standard
// deviation.
func Normal(deviation float64) Init {
	return func(r *rand.Rand, _ []int, values []float64) {
		for i := range values {
			values[i] = r.NormFloat64() * deviation
		}
	}
}

// XavierUniform draws from ±gain·√(6/(fanIn+fanOut)) (Glorot and Bengio, 2010,
// equation 16, for gain 1). MXNet's Xavier(magnitude=m) is gain √(m/3).
func XavierUniform(gain float64) Init {
	return fans(func(in, out float64) Init { return Uniform(gain * math.Sqrt(6/(in+out))) })
}

// XavierNormal has the deviation gain·√(2/(fanIn+fanOut)).
func XavierNormal(gain float64) Init {
	return fans(func(in, out float64) Init { return Normal(gain * math.Sqrt(2/(in+out))) })
}

// MSRA has the deviation √(2/fanIn), for layers before a ReLU (He and others,
// 2015, equation 10).
func MSRA() Init { return fans(func(in, _ float64) Init { return Normal(math.Sqrt(2 / in)) }) }

// He is MSRA by its first author's name, as Keras calls it; PyTorch says kaiming_normal_.
func He() Init { return MSRA() }

// MSRAOut has the deviation √(2/fanOut), which keeps the variance of gradients
// (He and others, 2015, equation 14); residual networks are usually started so.
func MSRAOut() Init { return fans(func(_, out float64) Init { return Normal(math.Sqrt(2 / out)) }) }

// MSRAUniform draws from ±√(6/fanIn), which has MSRA's deviation.
func MSRAUniform() Init { return fans(func(in, _ float64) Init { return Uniform(math.Sqrt(6 / in)) }) }

// fans chooses an Init by a weight's fans: for shape (Out, In, KH, KW), fanIn is
// In·KH·KW and fanOut is Out·KH·KW; for (Out, In) without the kernel's size.
func fans(choose func(in, out float64) Init) Init {
	return func(r *rand.Rand, shape []int, values []float64) {
		if len(shape) < 2 {
			panic(fmt.Sprintf("nn: init: shape is %v, and fans need (Out, In, ...)", shape))
		}
		kernel := 1
		for _, d := range shape[2:] {
			kernel *= d
		}
		choose(float64(shape[1]*kernel), float64(shape[0]*kernel))(r, shape, values)
	}
}

// stream is the random stream that belongs to a name under a seed.
func stream(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// initial makes the initial value of the parameter called name. float32 values
// are the float64 ones rounded.
func initial(init Init, seed uint64, name string, dt tensor.Dtype, shape []int) *tensor.Dense {
	values := make([]float64, tensor.Shape(shape).TotalSize())
	init(stream(seed, name), shape, values)
	if dt == tensor.Float64 {
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(values))
	}
	// Servers of the same host write new values into this memory.
	rounded := shm.Float32s(len(values))
	for i, v := range values {
		rounded[i] = float32(v)
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(rounded))
}
