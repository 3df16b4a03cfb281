package f32

import "fmt"

// same panics unless every length is n; op names the function.
func same(op string, n int, lens ...int) {
	for i, l := range lens {
		if l != n {
			panic(fmt.Sprintf("f32: %s: operand %d has %d values, the first has %d", op, i+1, l, n))
		}
	}
}

// Add sets dst = a + b.
func Add(dst, a, b []float32) {
	same2("Add", len(dst), len(a), len(b))
	kernels.add(dst, a, b)
}

// AddTo sets dst += x.
func AddTo(dst, x []float32) {
	same2("AddTo", len(dst), len(dst), len(x))
	kernels.add(dst, dst, x)
}

// Mul sets dst = a · b, element by element.
func Mul(dst, a, b []float32) {
	same2("Mul", len(dst), len(a), len(b))
	kernels.mul(dst, a, b)
}

// Axpy sets dst += alpha·x.
func Axpy(dst []float32, alpha float32, x []float32) {
	same2("Axpy", len(dst), len(dst), len(x))
	kernels.axpy(dst, alpha, x)
}

// Axpby sets dst = alpha·x + beta·dst.
func Axpby(dst []float32, alpha float32, x []float32, beta float32) {
	same2("Axpby", len(dst), len(dst), len(x))
	kernels.axpby(dst, alpha, x, beta)
}

// Scale sets dst = alpha·x.
func Scale(dst []float32, alpha float32, x []float32) {
	same2("Scale", len(dst), len(dst), len(x))
	kernels.scale(dst, alpha, x)
}

// Divide sets dst = x / by. A quotient has the same bits on every path.
func Divide(dst []float32, by float32, x []float32) {
	same2("Divide", len(dst), len(dst), len(x))
	kernels.divide(dst, by, x)
}

// Sum is Σ x; 0 for no values. It adds in several lanes, so it is more exact than a plain loop, and
// rounds differently on different paths.
func Sum(x []float32) float32 { return kernels.sum(x) }

// Dot is Σ x·y, added like Sum.
func Dot(x, y []float32) float32 {
	same2("Dot", len(x), len(x), len(y))
	return kernels.dot(x, y)
}

// Max is the largest value; x must not be empty and must hold no NaN (which of the others is
// returned then is not said).
func Max(x []float32) float32 {
	if len(x) == 0 {
		panic("f32: Max of no values")
	}
	return kernels.max(x)
}

// ReLU sets dst = max(x, 0). A NaN stays, so that a run that diverged shows it.
func ReLU(dst, x []float32) {
	same2("ReLU", len(dst), len(dst), len(x))
	kernels.relu(dst, x)
}

// MaxWhich is a step of max pooling: where x > out, or x is a NaN, it sets out = x and chosen =
// which.
func MaxWhich(out []float32, chosen []uint8, x []float32, which uint8) {
	same2("MaxWhich", len(out), len(chosen), len(x))
	kernels.maxWhich(out, chosen, x, which)
}

// ReLUGrad sets dx = dy where y > 0, else 0; where y or dy is a NaN, dx is one, so that a run that
// diverged shows it in its gradients. y is the output of ReLU or its input: both have the same sign
// where it counts.
func ReLUGrad(dx, dy, y []float32) {
	same2("ReLUGrad", len(dx), len(dy), len(y))
	kernels.reluGrad(dx, dy, y)
}

// same2 is same for two operands, without the slice of a variadic call.
func same2(op string, n, a, b int) {
	if a != n || b != n {
		same(op, n, a, b)
	}
}
