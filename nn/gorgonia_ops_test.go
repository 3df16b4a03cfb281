package nn_test

import (
	"fmt"
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A foreignOp is one way to use a function of gorgonia's, for the sweep.
type foreignOp struct {
	name  string // as its users write it
	in    []foreignLeaf
	build func(in G.Nodes) (*G.Node, error)
	// formula is what its documentation promises, nil where nothing is checked but the
	// gradient.
	formula func(in [][]float64) []float64
	refused string // what Compile's error says
	broken  string // why gorgonia cannot build it
	known   string // what is wrong and cannot be seen in a graph
}

// A foreignLeaf is an argument: a parameter with values between low and high, or integers, which
// are no parameters.
type foreignLeaf struct {
	shape     []int
	low, high float64
	ints      []int
}

// signed and positive are arguments away from the points where functions jump or bend.
func signed(shape ...int) foreignLeaf   { return foreignLeaf{shape: shape, low: -1, high: 1} }
func positive(shape ...int) foreignLeaf { return foreignLeaf{shape: shape, low: 0.4, high: 1.6} }
func integers(shape []int, values ...int) foreignLeaf {
	return foreignLeaf{shape: shape, ints: values}
}

func unary(name string, in foreignLeaf, f func(*G.Node) (*G.Node, error), of func(float64) float64) foreignOp {
	return of1(name, in, f).with(func(in [][]float64) []float64 {
		out := make([]float64, len(in[0]))
		for i, x := range in[0] {
			out[i] = of(x)
		}
		return out
	})
}

func binary(name string, a, b foreignLeaf, f func(a, b *G.Node) (*G.Node, error), of func(a, b float64) float64) foreignOp {
	return of2(name, a, b, f).with(func(in [][]float64) []float64 {
		out := make([]float64, max(len(in[0]), len(in[1])))
		for i := range out {
			out[i] = of(in[0][i%len(in[0])], in[1][i%len(in[1])])
		}
		return out
	})
}

// of1 is an op of one argument and no formula.
func of1(name string, in foreignLeaf, f func(x *G.Node) (*G.Node, error)) foreignOp {
	return foreignOp{name: name, in: []foreignLeaf{in}, build: func(in G.Nodes) (*G.Node, error) { return f(in[0]) }}
}

func of2(name string, a, b foreignLeaf, f func(a, b *G.Node) (*G.Node, error)) foreignOp {
	return foreignOp{name: name, in: []foreignLeaf{a, b}, build: func(in G.Nodes) (*G.Node, error) { return f(in[0], in[1]) }}
}

// with adds what the op is to compute.
func (o foreignOp) with(formula func(in [][]float64) []float64) foreignOp {
	o.formula = formula
	return o
}

// refusedWith says that Compile refuses the op with an error that says so.
func (o foreignOp) refusedWith(text string) foreignOp { o.refused = text; return o }

// brokenBy says that gorgonia cannot build it.
func (o foreignOp) brokenBy(why string) foreignOp { o.broken = why; return o }

// knownAs says what is wrong with what a program cannot know.
func (o foreignOp) knownAs(text string) foreignOp { o.known = text; return o }

// foreignOps has gorgonia's functions.
func foreignOps() []foreignOp {
	square := func(x float64) float64 { return x * x }
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	softplus := func(x float64) float64 { return math.Log1p(math.Exp(x)) }
	step := func(yes bool) float64 {
		if yes {
			return 1
		}
		return 0
	}
	all := []foreignOp{
		unary("Abs", signed(3, 4), G.Abs, math.Abs),
		unary("Sign", signed(3, 4), G.Sign, func(x float64) float64 { return math.Copysign(1, x) }),
		unary("Ceil", signed(3, 4), G.Ceil, math.Ceil),
		unary("Floor", signed(3, 4), G.Floor, math.Floor),
		unary("Sin", signed(3, 4), G.Sin, math.Sin),
		unary("Cos", signed(3, 4), G.Cos, math.Cos),
		unary("Exp", signed(3, 4), G.Exp, math.Exp),
		unary("Log", positive(3, 4), G.Log, math.Log),
		unary("Log2", positive(3, 4), G.Log2, math.Log2),
		unary("Neg", signed(3, 4), G.Neg, func(x float64) float64 { return -x }),
		unary("Square", signed(3, 4), G.Square, square),
		unary("Sqrt", positive(3, 4), G.Sqrt, math.Sqrt),
		unary("Inverse", positive(3, 4), G.Inverse, func(x float64) float64 { return 1 / x }),
		unary("InverseSqrt", positive(3, 4), G.InverseSqrt, func(x float64) float64 { return 1 / math.Sqrt(x) }),
		unary("InverseSqrt of a scalar", positive(), G.InverseSqrt, func(x float64) float64 { return 1 / math.Sqrt(x) }),
		unary("Cube", signed(3, 4), G.Cube, func(x float64) float64 { return x * x * x }),
		unary("Tanh", signed(3, 4), G.Tanh, math.Tanh),
		unary("Sigmoid", signed(3, 4), G.Sigmoid, sigmoid),
		unary("Log1p", positive(3, 4), G.Log1p, math.Log1p),
		unary("Expm1", signed(3, 4), G.Expm1, math.Expm1),
		unary("Softplus", signed(3, 4), G.Softplus, softplus),
		unary("Mish", signed(3, 4), G.Mish, func(x float64) float64 { return x * math.Tanh(softplus(x)) }),
		unary("Rectify", signed(3, 4), G.Rectify, func(x float64) float64 { return max(x, 0) }),
		unary("LeakyRelu", signed(3, 4), func(x *G.Node) (*G.Node, error) { return G.LeakyRelu(x, 0.1) }, func(x float64) float64 { return max(x, 0.1*x) }),

		binary("Add", signed(3, 4), signed(3, 4), G.Add, func(a, b float64) float64 { return a + b }),
		binary("Sub", signed(3, 4), signed(3, 4), G.Sub, func(a, b float64) float64 { return a - b }),
		binary("HadamardProd", signed(3, 4), signed(3, 4), G.HadamardProd, func(a, b float64) float64 { return a * b }),
		binary("HadamardDiv", signed(3, 4), positive(3, 4), G.HadamardDiv, func(a, b float64) float64 { return a / b }),
		binary("Div", signed(3, 4), positive(3, 4), G.Div, func(a, b float64) float64 { return a / b }),
		binary("Pow", positive(3, 4), positive(3, 4), G.Pow, math.Pow),
		binary("MinBetween", signed(3, 4), signed(3, 4), G.MinBetween, math.Min),
		binary("MaxBetween", signed(3, 4), signed(3, 4), G.MaxBetween, math.Max),
	}
	for _, kind := range []struct {
		name string
		a, b []int
	}{{"tensor and scalar", []int{3, 4}, nil}, {"scalar and tensor", nil, []int{3, 4}}, {"scalars", nil, nil}} {
		all = append(all,
			binary("Add, "+kind.name, signed(kind.a...), signed(kind.b...), G.Add, func(a, b float64) float64 { return a + b }),
			binary("Sub, "+kind.name, signed(kind.a...), signed(kind.b...), G.Sub, func(a, b float64) float64 { return a - b }),
			binary("HadamardProd, "+kind.name, signed(kind.a...), signed(kind.b...), G.HadamardProd, func(a, b float64) float64 { return a * b }),
			binary("HadamardDiv, "+kind.name, signed(kind.a...), positive(kind.b...), G.HadamardDiv, func(a, b float64) float64 { return a / b }),
			binary("Pow, "+kind.name, positive(kind.a...), positive(kind.b...), G.Pow, math.Pow),
		)
	}
	for _, c := range []struct {
		name string
		f    func(a, b *G.Node, same bool) (*G.Node, error)
		of   func(a, b float64) bool
	}{
		{"Lt", G.Lt, func(a, b float64) bool { return a < b }}, {"Gt", G.Gt, func(a, b float64) bool { return a > b }},
		{"Lte", G.Lte, func(a, b float64) bool { return a <= b }}, {"Gte", G.Gte, func(a, b float64) bool { return a >= b }},
		{"Eq", G.Eq, func(a, b float64) bool { return a == b }}, {"Ne", G.Ne, func(a, b float64) bool { return a != b }},
	} {
		all = append(all, binary(c.name, signed(3, 4), signed(3, 4), func(a, b *G.Node) (*G.Node, error) { return c.f(a, b, true) },
			func(a, b float64) float64 { return step(c.of(a, b)) }))
	}
	all = append(all, foreignLinear()...)
	all = append(all, foreignShapes()...)
	return append(all, foreignLayers()...)
}

// product is the matrix a (n,k) times b (k,m).
func product(a, b []float64, n, k, m int) []float64 {
	out := make([]float64, n*m)
	for i := range n {
		for j := range m {
			for l := range k {
				out[i*m+j] += a[i*k+l] * b[l*m+j]
			}
		}
	}
	return out
}

func foreignLinear() []foreignOp {
	return []foreignOp{
		of2("Mul, matrices", signed(3, 4), signed(4, 2), G.Mul).with(func(in [][]float64) []float64 { return product(in[0], in[1], 3, 4, 2) }),
		of2("Mul, matrix and vector", signed(3, 4), signed(4), G.Mul).with(func(in [][]float64) []float64 { return product(in[0], in[1], 3, 4, 1) }),
		of2("Mul, vector and matrix", signed(3), signed(3, 4), G.Mul).with(func(in [][]float64) []float64 { return product(in[0], in[1], 1, 3, 4) }),
		of2("Mul, square matrix and vector", signed(3, 3), signed(3), G.Mul).with(func(in [][]float64) []float64 { return product(in[0], in[1], 3, 3, 1) }),
		of2("Mul, vector and square matrix", signed(3), signed(3, 3), G.Mul).with(func(in [][]float64) []float64 { return product(in[0], in[1], 1, 3, 3) }),
		of2("Mul, vectors", signed(3), signed(3), G.Mul).with(func(in [][]float64) []float64 { return product(in[0], in[1], 1, 3, 1) }),
		of2("OuterProd", signed(3), signed(4), G.OuterProd).with(func(in [][]float64) []float64 { return product(in[0], in[1], 3, 1, 4) }),
		of2("BatchedMatMul", signed(2, 3, 4), signed(2, 4, 2), func(a, b *G.Node) (*G.Node, error) { return G.BatchedMatMul(a, b) }),
		of2("BatchedMatMul, first transposed", signed(2, 4, 3), signed(2, 4, 2), func(a, b *G.Node) (*G.Node, error) { return G.BatchedMatMul(a, b, true) }),
		of2("BatchedMatMul, second transposed", signed(2, 3, 4), signed(2, 2, 4), func(a, b *G.Node) (*G.Node, error) { return G.BatchedMatMul(a, b, false, true) }),
		of2("BatchedMatMul, both transposed", signed(2, 4, 3), signed(2, 2, 4), func(a, b *G.Node) (*G.Node, error) { return G.BatchedMatMul(a, b, true, true) }),
		of2("Tensordot, one axis", signed(3, 4), signed(4, 2), func(a, b *G.Node) (*G.Node, error) { return G.Tensordot([]int{1}, []int{0}, a, b) }).with(
			func(in [][]float64) []float64 { return product(in[0], in[1], 3, 4, 2) }),
		of2("Tensordot, first axes", signed(4, 3), signed(4, 2), func(a, b *G.Node) (*G.Node, error) { return G.Tensordot([]int{0}, []int{0}, a, b) }),
		of2("Tensordot, two axes", signed(3, 4, 2), signed(4, 3, 5), func(a, b *G.Node) (*G.Node, error) { return G.Tensordot([]int{0, 1}, []int{1, 0}, a, b) }),
		of2("Tensordot, vectors", signed(4), signed(4), func(a, b *G.Node) (*G.Node, error) { return G.Tensordot([]int{0}, []int{0}, a, b) }),
	}
}

func foreignShapes() []foreignOp {
	var all []foreignOp
	for _, shape := range [][]int{{5}, {3, 4}, {2, 3, 4}, {2, 3, 2, 2}} {
		dims := len(shape)
		all = append(all, of1(fmt.Sprintf("Sum, %d dimensions, all axes", dims), signed(shape...), func(x *G.Node) (*G.Node, error) { return G.Sum(x) }).with(
			func(in [][]float64) []float64 {
				sum := 0.0
				for _, v := range in[0] {
					sum += v
				}
				return []float64{sum}
			}),
			of1(fmt.Sprintf("Mean, %d dimensions, all axes", dims), signed(shape...), func(x *G.Node) (*G.Node, error) { return G.Mean(x) }).with(
				func(in [][]float64) []float64 {
					sum := 0.0
					for _, v := range in[0] {
						sum += v / float64(len(in[0]))
					}
					return []float64{sum}
				}),
			of1(fmt.Sprintf("Max, %d dimensions, all axes", dims), signed(shape...), func(x *G.Node) (*G.Node, error) { return G.Max(x) }).with(
				func(in [][]float64) []float64 {
					most := math.Inf(-1)
					for _, v := range in[0] {
						most = max(most, v)
					}
					return []float64{most}
				}))
		if dims == 1 {
			continue
		}
		for axis := range dims {
			along := func(reduce func(values []float64) float64) func(in [][]float64) []float64 {
				return func(in [][]float64) []float64 { return reduced(in[0], shape, axis, reduce) }
			}
			total := func(values []float64) (sum float64) {
				for _, v := range values {
					sum += v
				}
				return sum
			}
			at := func(name string) string { return fmt.Sprintf("%s, %d dimensions, axis %d", name, dims, axis) }
			all = append(all,
				of1(at("Sum"), signed(shape...), func(x *G.Node) (*G.Node, error) { return G.Sum(x, axis) }).with(along(total)),
				of1(at("Mean"), signed(shape...), func(x *G.Node) (*G.Node, error) { return G.Mean(x, axis) }).with(
					along(func(v []float64) float64 { return total(v) / float64(len(v)) })),
				of1(at("Max"), signed(shape...), func(x *G.Node) (*G.Node, error) { return G.Max(x, axis) }).with(
					along(func(v []float64) float64 {
						most := v[0]
						for _, x := range v {
							most = max(most, x)
						}
						return most
					})),
			)
			if dims < 4 {
				all = append(all,
					of1(at("Norm 2"), positive(shape...), func(x *G.Node) (*G.Node, error) { return G.Norm(x, axis, 2) }),
					of1(at("SoftMax"), signed(shape...), func(x *G.Node) (*G.Node, error) { return G.SoftMax(x, axis) }),
					of1(at("LogSoftMax"), signed(shape...), func(x *G.Node) (*G.Node, error) { return G.LogSoftMax(x, axis) }),
				)
			}
		}
	}
	all = append(all,
		of1("Sum, two of three axes", signed(2, 3, 4), func(x *G.Node) (*G.Node, error) { return G.Sum(x, 0, 2) }),
		of1("Mean, two of three axes", signed(2, 3, 4), func(x *G.Node) (*G.Node, error) { return G.Mean(x, 1, 2) }),
		of1("Sum, two of four axes", signed(2, 3, 2, 2), func(x *G.Node) (*G.Node, error) { return G.Sum(x, 2, 3) }),
		of1("Mean, two of four axes", signed(2, 3, 2, 2), func(x *G.Node) (*G.Node, error) { return G.Mean(x, 2, 3) }),
		of1("Norm 3", positive(3, 4), func(x *G.Node) (*G.Node, error) { return G.Norm(x, 1, 3) }),
		of1("LogSumExp", signed(3, 4), func(x *G.Node) (*G.Node, error) { return G.LogSumExp(x, 1) }).brokenBy("gorgonia cannot build it: it subtracts shapes that differ"),
		of1("SoftMax", signed(3, 4), func(x *G.Node) (*G.Node, error) { return G.SoftMax(x) }).with(softmaxRows),
		of1("SoftMax of a vector", signed(4), func(x *G.Node) (*G.Node, error) { return G.SoftMax(x) }),
		of1("LogSoftMax", signed(3, 4), func(x *G.Node) (*G.Node, error) { return G.LogSoftMax(x) }),
		of1("Log of SoftMax", signed(3, 4), func(x *G.Node) (*G.Node, error) { return G.Log(G.Must(G.SoftMax(x))) }),
		of1("Log of Sigmoid", signed(3, 4), func(x *G.Node) (*G.Node, error) { return G.Log(G.Must(G.Sigmoid(x))) }),
		of1("Sparsemax", signed(3, 4), func(x *G.Node) (*G.Node, error) { return G.Sparsemax(x) }),
		of1("At", signed(3, 4), func(x *G.Node) (*G.Node, error) { return G.At(x, 1, 2) }).with(
			func(in [][]float64) []float64 { return in[0][6:7] }),
		of1("Slice, rows", signed(4, 3), func(x *G.Node) (*G.Node, error) { return G.Slice(x, G.S(1, 3)) }).with(
			func(in [][]float64) []float64 { return in[0][3:9] }),
		of1("Slice, one row", signed(4, 3), func(x *G.Node) (*G.Node, error) { return G.Slice(x, G.S(1)) }).with(
			func(in [][]float64) []float64 { return in[0][3:6] }),
		of1("Slice, columns", signed(3, 4), func(x *G.Node) (*G.Node, error) { return G.Slice(x, nil, G.S(1, 3)) }),
		of1("Slice, one column", signed(3, 4), func(x *G.Node) (*G.Node, error) { return G.Slice(x, nil, G.S(1)) }),
		of1("Slice, one number", signed(3, 4), func(x *G.Node) (*G.Node, error) { return G.Slice(x, G.S(1), G.S(2)) }),
		of1("Slice, every second row", signed(4, 3), func(x *G.Node) (*G.Node, error) { return G.Slice(x, G.S(0, 4, 2)) }),
		of1("Slice of three dimensions", signed(2, 3, 4), func(x *G.Node) (*G.Node, error) { return G.Slice(x, nil, G.S(1, 3)) }),
		of1("Transpose", signed(3, 4), func(x *G.Node) (*G.Node, error) { return G.Transpose(x, 1, 0) }),
		of1("Transpose of three dimensions", signed(2, 3, 4), func(x *G.Node) (*G.Node, error) { return G.Transpose(x, 2, 0, 1) }),
		of1("Transpose of four dimensions", signed(2, 3, 2, 4), func(x *G.Node) (*G.Node, error) { return G.Transpose(x, 0, 3, 1, 2) }),
		of1("Reshape", signed(3, 4), func(x *G.Node) (*G.Node, error) { return G.Reshape(x, tensor.Shape{2, 6}) }),
		of1("Reshape of a transposed", signed(3, 4), func(x *G.Node) (*G.Node, error) {
			return G.Reshape(G.Must(G.Transpose(x, 1, 0)), tensor.Shape{2, 6})
		}),
		of1("Ravel", signed(3, 4), G.Ravel),
		of2("Concat, axis 0", signed(2, 3), signed(3, 3), func(a, b *G.Node) (*G.Node, error) { return G.Concat(0, a, b) }),
		of2("Concat, axis 1", signed(3, 2), signed(3, 3), func(a, b *G.Node) (*G.Node, error) { return G.Concat(1, a, b) }),
		of2("Concat of vectors", signed(3), signed(2), func(a, b *G.Node) (*G.Node, error) { return G.Concat(0, a, b) }),
		of2("Concat of images along channels", signed(2, 1, 2, 2), signed(2, 2, 2, 2), func(a, b *G.Node) (*G.Node, error) { return G.Concat(1, a, b) }),
		of1("Unconcat", signed(4, 3), func(x *G.Node) (*G.Node, error) {
			parts, err := G.Unconcat(x, 0, 2)
			if err != nil {
				return nil, err
			}
			return G.HadamardProd(parts[0], parts[1])
		}),
		of2("BroadcastAdd, rows", signed(3, 4), signed(1, 4), func(a, b *G.Node) (*G.Node, error) { return G.BroadcastAdd(a, b, nil, []byte{0}) }),
		of2("BroadcastAdd, vector to rows", signed(3, 4), signed(4), func(a, b *G.Node) (*G.Node, error) { return G.BroadcastAdd(a, b, nil, []byte{0}) }),
		of2("BroadcastAdd, vector to columns", signed(3, 4), signed(3), func(a, b *G.Node) (*G.Node, error) { return G.BroadcastAdd(a, b, nil, []byte{1}) }),
		of2("BroadcastHadamardProd, columns", signed(3, 4), signed(3, 1), func(a, b *G.Node) (*G.Node, error) { return G.BroadcastHadamardProd(a, b, nil, []byte{1}) }),
		of2("BroadcastSub, left side", signed(1, 4), signed(3, 4), func(a, b *G.Node) (*G.Node, error) { return G.BroadcastSub(a, b, []byte{0}, nil) }),
		of2("BroadcastHadamardDiv, rows", signed(3, 4), positive(1, 4), func(a, b *G.Node) (*G.Node, error) { return G.BroadcastHadamardDiv(a, b, nil, []byte{0}) }),
		of2("BroadcastPow, rows", positive(3, 4), positive(1, 4), func(a, b *G.Node) (*G.Node, error) { return G.BroadcastPow(a, b, nil, []byte{0}) }),
		of2("BroadcastAdd, channels of images", signed(2, 3, 2, 2), signed(1, 3, 1, 1), func(a, b *G.Node) (*G.Node, error) { return G.BroadcastAdd(a, b, nil, []byte{0, 2, 3}) }),
		foreignOp{name: "ByIndices, axis 0", in: []foreignLeaf{signed(4, 3), integers([]int{3}, 0, 3, 3)},
			build: func(in G.Nodes) (*G.Node, error) { return G.ByIndices(in[0], in[1], 0) }},
		foreignOp{name: "ByIndices, axis 1", in: []foreignLeaf{signed(3, 4), integers([]int{3}, 0, 3, 3)},
			build: func(in G.Nodes) (*G.Node, error) { return G.ByIndices(in[0], in[1], 1) }, refused: "transpose the argument and the result and take axis 0, or use nn.Embedding"},
		foreignOp{name: "ByIndices of three dimensions, axis 0", in: []foreignLeaf{signed(4, 3, 2), integers([]int{3}, 0, 3, 3)},
			build: func(in G.Nodes) (*G.Node, error) { return G.ByIndices(in[0], in[1], 0) }},
		of1("DiagFlat", signed(3), G.DiagFlat).brokenBy("the type of its result, a matrix of vectors, fits no other op"),
		of1("KeepDims of Sum", signed(3, 4), func(x *G.Node) (*G.Node, error) {
			return G.KeepDims(x, false, func(x *G.Node) (*G.Node, error) { return G.Sum(x, 1) })
		}),
	)
	return all
}

// reduced folds axis of x.
func reduced(x []float64, shape []int, axis int, reduce func([]float64) float64) []float64 {
	inner := tensor.Shape(shape[axis+1:]).TotalSize()
	outer, n := len(x)/(inner*shape[axis]), shape[axis]
	var out []float64
	for o := range outer {
		for i := range inner {
			values := make([]float64, n)
			for k := range values {
				values[k] = x[(o*n+k)*inner+i]
			}
			out = append(out, reduce(values))
		}
	}
	return out
}

func softmaxRows(in [][]float64) []float64 {
	out := make([]float64, len(in[0]))
	for r := 0; r < len(out); r += 4 {
		sum := 0.0
		for k := range 4 {
			out[r+k] = math.Exp(in[0][r+k])
			sum += out[r+k]
		}
		for k := range 4 {
			out[r+k] /= sum
		}
	}
	return out
}

// images is of a pool: the reduction of windows of x (1,2,4,6).
func pooled(kernel, stride, pad int, reduce func(window []float64) float64) func(in [][]float64) []float64 {
	return func(in [][]float64) []float64 {
		var out []float64
		for c := range 2 {
			for i := 0; i+kernel <= 4+2*pad; i += stride {
				for j := 0; j+kernel <= 6+2*pad; j += stride {
					var window []float64
					for a := max(0, i-pad); a < min(4, i-pad+kernel); a++ {
						for b := max(0, j-pad); b < min(6, j-pad+kernel); b++ {
							window = append(window, in[0][c*24+a*6+b])
						}
					}
					out = append(out, reduce(window))
				}
			}
		}
		return out
	}
}

func foreignLayers() []foreignOp {
	biggest := func(window []float64) float64 {
		most := window[0]
		for _, x := range window {
			most = max(most, x)
		}
		return most
	}
	mean := func(window []float64) float64 {
		sum := 0.0
		for _, x := range window {
			sum += x / float64(len(window))
		}
		return sum
	}
	image := signed(1, 2, 4, 6)
	conv2d := func(name string, filters foreignLeaf, pad, stride, dilation []int) foreignOp {
		return of2(name, signed(2, 2, 5, 6), filters, func(x, w *G.Node) (*G.Node, error) {
			return G.Conv2d(x, w, tensor.Shape{w.Shape()[2], w.Shape()[3]}, pad, stride, dilation)
		})
	}
	pool := func(name string, kernel int, pad, stride []int, f func(*G.Node, tensor.Shape, []int, []int) (*G.Node, error)) foreignOp {
		return of1(name, image, func(x *G.Node) (*G.Node, error) { return f(x, tensor.Shape{kernel, kernel}, pad, stride) })
	}
	affine := func(scale, bias []int, x foreignLeaf) foreignOp {
		return foreignOp{in: []foreignLeaf{x, positive(scale...), signed(bias...)}, build: func(in G.Nodes) (*G.Node, error) {
			y, _, _, _, err := G.BatchNorm(in[0], in[1], in[2], 0.1, 1e-3)
			return y, err
		}}
	}
	named := func(name string, o foreignOp) foreignOp { o.name = name; return o }
	return []foreignOp{
		of1("Im2Col", image, func(x *G.Node) (*G.Node, error) {
			return G.Im2Col(x, tensor.Shape{2, 3}, tensor.Shape{0, 1}, tensor.Shape{1, 2}, tensor.Shape{1, 1})
		}),
		conv2d("Conv2d", signed(3, 2, 3, 3), []int{1, 1}, []int{1, 1}, []int{1, 1}),
		conv2d("Conv2d, stride 2, no pad", signed(3, 2, 3, 2), []int{0, 0}, []int{2, 1}, []int{1, 1}),
		conv2d("Conv2d, dilation 2", signed(3, 2, 2, 2), []int{1, 1}, []int{1, 1}, []int{2, 2}),
		of2("Conv2d, filters turned against the kernel's shape", signed(2, 2, 5, 6), signed(3, 2, 3, 1), func(x, w *G.Node) (*G.Node, error) {
			return G.Conv2d(x, w, tensor.Shape{1, 3}, nil, []int{1, 2}, nil)
		}),
		of2("Conv1d", signed(2, 2, 1, 6), signed(3, 2, 1, 3), func(x, w *G.Node) (*G.Node, error) { return G.Conv1d(x, w, 3, 1, 1, 1) }),
		pool("MaxPool2D", 2, []int{0, 0}, []int{2, 2}, G.MaxPool2D).with(pooled(2, 2, 0, biggest)),
		pool("MaxPool2D, overlapping, padded", 3, []int{1, 1}, []int{2, 2}, G.MaxPool2D).with(pooled(3, 2, 1, biggest)),
		pool("MaxPool2D, four pads", 3, []int{1, 1, 1, 1}, []int{2, 2}, G.MaxPool2D).with(pooled(3, 2, 1, biggest)),
		pool("MaxPool2D, pads that differ", 3, []int{0, 1, 1, 1}, []int{2, 2}, G.MaxPool2D).with(func(in [][]float64) []float64 {
			var out []float64
			for c := range 2 {
				for i := range 2 {
					for j := range 3 {
						most := math.Inf(-1)
						for h := 2 * i; h < min(4, 2*i+3); h++ {
							for v := max(0, 2*j-1); v < min(6, 2*j+2); v++ {
								most = max(most, in[0][c*24+h*6+v])
							}
						}
						out = append(out, most)
					}
				}
			}
			return out
		}).refusedWith("use pads that are equal, or nn.MaxPool2D"),
		of1("MaxPool1D", signed(1, 2, 1, 6), func(x *G.Node) (*G.Node, error) { return G.MaxPool1D(x, 2, 0, 2) }),
		pool("AveragePool2D", 2, []int{0, 0}, []int{2, 2}, G.AveragePool2D).with(pooled(2, 2, 0, mean)).refusedWith("use nn.AvgPool2D"),
		of1("AveragePool1D", signed(1, 2, 1, 6), func(x *G.Node) (*G.Node, error) { return G.AveragePool1D(x, 2, 0, 2) }).with(
			func(in [][]float64) []float64 {
				var out []float64
				for i := 0; i < len(in[0]); i += 2 {
					out = append(out, (in[0][i]+in[0][i+1])/2)
				}
				return out
			}).knownAs("**cannot be told from MaxPool1D, which it is**: use nn.AvgPool2D"),
		of1("GlobalAveragePool2D", image, G.GlobalAveragePool2D).with(func(in [][]float64) []float64 {
			return []float64{mean(in[0][:24]), mean(in[0][24:])}
		}),
		of1("Upsample2D", signed(2, 2, 2, 3), func(x *G.Node) (*G.Node, error) { return G.Upsample2D(x, 3) }),
		named("BatchNorm of images", affine([]int{1, 3, 1, 1}, []int{1, 3, 1, 1}, signed(4, 3, 2, 2))),
		named("BatchNorm of images, scale of the whole shape", affine([]int{4, 3, 2, 2}, []int{4, 3, 2, 2}, signed(4, 3, 2, 2))),
		named("BatchNorm of matrices", affine([]int{1, 3}, []int{1, 3}, signed(6, 3))),
		{name: "GroupNorm", in: []foreignLeaf{signed(2, 4, 3, 3), positive(1, 4, 1, 1), signed(1, 4, 1, 1)},
			build: func(in G.Nodes) (*G.Node, error) { return G.GroupNorm(in[0], in[1], in[2], 2, 4, 1e-3) }},
		of2("BinaryXent", foreignLeaf{shape: []int{3, 4}, low: 0.2, high: 0.8}, foreignLeaf{shape: []int{3, 4}, low: 0.2, high: 0.8}, G.BinaryXent),
		ctc("CTCLoss", G.ReductionMean, -1).refusedWith("use ReductionSum, over LogSoftMax along the classes, and divide"),
		ctc("CTCLoss of LogSoftMax", G.ReductionMean, 2).refusedWith("use ReductionSum, over LogSoftMax along the classes, and divide"),
		ctc("CTCLoss, sum", G.ReductionSum, -1).refusedWith("from gorgonia.LogSoftMax along the classes"),
		ctc("CTCLoss of LogSoftMax along the batch, sum", G.ReductionSum, 1).refusedWith("from gorgonia.LogSoftMax along the classes"),
		ctc("CTCLoss of LogSoftMax, sum", G.ReductionSum, 2),
	}
}

// ctc is CTCLoss over LogSoftMax along an axis, or over numbers that are no probabilities (-1).
func ctc(name string, reduction G.Reduction, axis int) foreignOp {
	in := []foreignLeaf{{shape: []int{5, 2, 4}, low: -2, high: -1}, integers([]int{2, 2}, 1, 2, 3, 1), integers([]int{2}, 5, 5), integers([]int{2}, 2, 2)}
	return foreignOp{name: name, in: in, build: func(in G.Nodes) (*G.Node, error) {
		x := in[0]
		if axis >= 0 {
			x = G.Must(G.LogSoftMax(x, axis))
		}
		return G.CTCLoss(x, in[1], in[2], in[3], reduction)
	}}
}
