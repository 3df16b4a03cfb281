package nn

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/f32"
)

// DType is the type of numbers in which a program computes. Parameters, gradients, inputs and
// outputs are float32 in any case.
type DType uint8

const (
	// AutoDType is Float32 on a CPU and BFloat16 on a GPU.
	AutoDType DType = iota
	// Float32 computes everything in float32.
	Float32
	// BFloat16 rounds what convolutions and Linear multiply, forward and backward, to bfloat16
	// (8 bits of precision, float32's range) and sums the products in float32. Images between
	// operations, and the gradients that flow back through them, are stored as bfloat16,
	// rounded to nearest even; other operations read it and compute in float32. Parameters,
	// their gradients, running statistics, matrices, logits and the loss stay float32; on a GPU
	// matrices between operations and gradients of convolutions' weights are rounded too. It
	// takes about half of the memory of Float32 beside parameters and gradients. Loss scaling
	// is not needed. A CPU with AMX is faster at it by far, one with full-rate AVX512_BF16 is
	// faster. On other CPUs products are those of Float32, images are stored as float32, too,
	// and a program computes what one of Float32 does.
	BFloat16
	// TF32 is Float32 with what convolutions and Linear multiply rounded to 10 bits of
	// precision. GPUs only.
	TF32
	// Float16 is BFloat16 with IEEE half precision in its place: 11 bits of precision, but a
	// small range. So the GPU multiplies the loss by a scale that it adapts from step to step,
	// and divides gradients by it; if gradients are not finite, the step's gradients are zero
	// (see Program.Finite). GPUs only.
	Float16
)

var dtypeNames = [...]string{"auto", "float32", "bf16", "tf32", "fp16"}

func (d DType) String() string {
	if int(d) < len(dtypeNames) {
		return dtypeNames[d]
	}
	return fmt.Sprintf("DType(%d)", d)
}

// on is the type itself, or for AutoDType the one that it stands for on a device.
func (d DType) on(of device) DType {
	switch {
	case d != AutoDType:
		return d
	case of.gpu:
		return BFloat16
	}
	return Float32
}

// Native reports whether this machine's CPU multiplies numbers of this type faster than Float32's.
func (d DType) Native() bool {
	return d <= Float32 || d == BFloat16 && f32.BFloat16Products() != f32.FloatProducts
}

// ParseDType returns the type of this name: auto, float32, bf16, tf32 or fp16.
func ParseDType(name string) (DType, error) {
	for d, s := range dtypeNames {
		if s == name {
			return DType(d), nil
		}
	}
	return 0, fmt.Errorf("nn: number type %q, want auto, float32, bf16, tf32 or fp16", name)
}
