package cublaslt

import (
	"fmt"
	"math"
)

// A DType is how a number is stored: a cudaDataType_t. The zero value is Float32.
type DType int32

// The types of matrices.
const (
	Float32  DType = 0
	Float16  DType = 2
	BFloat16 DType = 14
)

func (t DType) String() string {
	switch t {
	case Float32:
		return "float32"
	case Float16:
		return "float16"
	case BFloat16:
		return "bfloat16"
	}
	return fmt.Sprintf("DType(%d)", int32(t))
}

// Size is the bytes of one number.
func (t DType) Size() int64 {
	if t == Float32 {
		return 4
	}
	return 2
}

// A Matmul is a question: a product of row-major matrices,
//
//	D (M,N) = op(A) (M,K) · op(B) (K,N)
//
// where op transposes what lies in memory if TransA or TransB is set: A is then stored as (K,M), B
// as (N,K). Then, in this order, Accumulate adds what D held, Bias adds a vector (N) to each row,
// ReLU replaces what is negative by 0.
type Matmul struct {
	M, N, K        int
	TransA, TransB bool

	// In is the type of A and B.
	In DType

	// Out is the type of D: Float32 or In.
	Out DType

	Accumulate bool
	Bias       bool
	ReLU       bool

	// BiasGrad also writes the sums of op(A)'s rows, Σ_k op(A)[m,k], a vector (M): with A = dy
	// transposed the gradient of a bias. It goes without Bias and ReLU.
	BiasGrad bool

	// BiasType is the type of the vector. What the library takes besides Out is not known for
	// all versions.
	BiasType DType

	// TF32 lets float32 products lose mantissa bits, 10 being left, for the sake of tensor
	// cores.
	TF32 bool
}

// Linear is the forward pass of a layer: x (batch,in), W (out,in), b (out) → y (batch,out) = x·Wᵀ +
// b. A is x, B is W.
func Linear(batch, in, out int, t DType) Matmul {
	return Matmul{M: batch, N: out, K: in, TransB: true, In: t, Out: t, Bias: true, BiasType: t}
}

// LinearGradInput is dy (batch,out), W (out,in) → dx (batch,in) = dy·W. A is dy, B is W.
func LinearGradInput(batch, in, out int, t DType) Matmul {
	return Matmul{M: batch, N: in, K: out, In: t, Out: t, BiasType: t}
}

// LinearGradWeight is dy (batch,out), x (batch,in) → dW (out,in) = dyᵀ·x in the type grad. A is dy,
// B is x. With BiasGrad set it also gives db.
func LinearGradWeight(batch, in, out int, t, grad DType) Matmul {
	return Matmul{M: out, N: in, K: batch, TransA: true, In: t, Out: grad, BiasType: grad}
}

func (m Matmul) String() string {
	name := func(letter string, trans bool) string {
		if trans {
			return letter + "ᵀ"
		}
		return letter
	}
	text := fmt.Sprintf("product %s·%s of M%d N%d K%d, %v to %v", name("A", m.TransA), name("B", m.TransB), m.M, m.N, m.K, m.In, m.Out)
	for _, f := range []struct {
		on   bool
		text string
	}{{m.Accumulate, ", accumulate"}, {m.Bias, ", bias"}, {m.ReLU, ", relu"}, {m.BiasGrad, ", bias gradient"}, {m.TF32, ", tf32"}} {
		if f.on {
			text += f.text
		}
	}
	if m.Bias || m.BiasGrad {
		text += " in " + m.BiasType.String()
	}
	return text
}

// Validate names the field that no product can have, its value and the rule.
func (m Matmul) Validate() error {
	for i, v := range [...]int{m.M, m.N, m.K} {
		if v < 1 || v > math.MaxInt32 {
			return fmt.Errorf("cublaslt: %v: %c is %d, want 1 to %d", m, "MNK"[i], v, math.MaxInt32)
		}
	}
	for _, f := range []struct {
		name string
		t    DType
	}{{"In", m.In}, {"Out", m.Out}, {"BiasType", m.BiasType}} {
		if f.t != Float32 && f.t != Float16 && f.t != BFloat16 {
			return fmt.Errorf("cublaslt: %v: %s has type %v, want float32, float16 or bfloat16", m, f.name, f.t)
		}
	}
	if m.Out != Float32 && m.Out != m.In {
		return fmt.Errorf("cublaslt: %v: Out is %v, want float32 or In, %v", m, m.Out, m.In)
	}
	if m.BiasGrad && (m.Bias || m.ReLU) {
		return fmt.Errorf("cublaslt: %v: BiasGrad is set with Bias or ReLU", m)
	}
	return nil
}

// epilogue is the cublasLtEpilogue_t.
func (m Matmul) epilogue() uint32 {
	switch {
	case m.BiasGrad:
		return epilogueBiasGradB // op(A) is the library's B
	case m.Bias && m.ReLU:
		return epilogueReLUBias
	case m.Bias:
		return epilogueBias
	case m.ReLU:
		return epilogueReLU
	}
	return epilogueDefault
}

// compute is the cublasComputeType_t.
func (m Matmul) compute() uintptr {
	if m.In == Float32 && m.TF32 {
		return compute32FFastTF32
	}
	return compute32F
}

// A layout is a matrix as the library sees it, by columns.
type layout struct {
	t              DType
	rows, cols, ld int
}

// layouts are those of op(B)ᵀ, op(A)ᵀ and Dᵀ before the operations: the library's A, B and D.
func (m Matmul) layouts() [3]layout {
	stored := func(t DType, rows, cols int, trans bool) layout {
		// A row-major matrix of rows×cols is a column-major one of cols×rows.
		if trans {
			rows, cols = cols, rows
		}
		return layout{t, cols, rows, cols}
	}
	return [3]layout{stored(m.In, m.K, m.N, m.TransB), stored(m.In, m.M, m.K, m.TransA), stored(m.Out, m.M, m.N, false)}
}
