package op_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/ref"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

func f64(shape []int, values ...float64) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(values))
}

// iota is a tensor of first, first+1, ...
func iota(first float64, shape ...int) *tensor.Dense {
	values := make([]float64, tensor.Shape(shape).TotalSize())
	for i := range values {
		values[i] = first + float64(i)
	}
	return f64(shape, values...)
}

func i32(values ...int32) *tensor.Dense {
	return tensor.New(tensor.WithShape(len(values)), tensor.WithBacking(values))
}

// Results worked out by hand or by an independent sum.
func TestOpsGiveTheirFormulas(t *testing.T) {
	mode := &op.Mode{}
	cases := []struct {
		name string
		op   gorgonia.Op
		in   []gorgonia.Value
		want []float64
	}{
		{"Conv2D picks the centre", &op.Conv2D{Stride: one, Pad: one}, []gorgonia.Value{iota(1, 1, 1, 2, 3), f64([]int{1, 1, 3, 3}, 0, 0, 0, 0, 1, 0, 0, 0, 0)}, []float64{1, 2, 3, 4, 5, 6}},
		{"Conv2D is a correlation", &op.Conv2D{Stride: one}, []gorgonia.Value{iota(0, 1, 1, 3, 3), f64([]int{1, 1, 2, 2}, 1, 2, 3, 4)}, []float64{0 + 2 + 9 + 16, 1 + 4 + 12 + 20, 3 + 8 + 18 + 28, 4 + 10 + 21 + 32}},
		{"Conv2D sums channels", &op.Conv2D{Stride: two}, []gorgonia.Value{iota(0, 1, 2, 2, 2), f64([]int{2, 2, 1, 1}, 1, 10, 0, 1)}, []float64{40, 4}},
		{"MaxPool2D leaves padding out", &op.MaxPool2D{Kernel: two, Stride: two, Pad: one}, []gorgonia.Value{iota(-9, 1, 1, 2, 2)}, []float64{-9, -8, -7, -6}},
		{"MaxPool2DGrad goes to the first of equals", &op.MaxPool2DGrad{Kernel: two, Stride: two}, []gorgonia.Value{f64([]int{1, 1, 2, 2}, 5, 7, 7, 7), f64([]int{1, 1, 1, 1}, 3)}, []float64{0, 3, 0, 0}},
		{"MaxPool2DGrad adds where windows share a maximum", &op.MaxPool2DGrad{Kernel: two, Stride: one}, []gorgonia.Value{f64([]int{1, 1, 2, 3}, 1, 9, 2, 3, 4, 5), f64([]int{1, 1, 1, 2}, 3, 4)}, []float64{0, 7, 0, 0, 0, 0}},
		{"AvgPool2D counts padding", &op.AvgPool2D{Kernel: two, Stride: two, Pad: one}, []gorgonia.Value{iota(4, 1, 1, 2, 2)}, []float64{1, 1.25, 1.5, 1.75}},
		{"AvgPool2D excludes padding", &op.AvgPool2D{Kernel: two, Stride: two, Pad: one, ExcludePad: true}, []gorgonia.Value{iota(4, 1, 1, 2, 2)}, []float64{4, 5, 6, 7}},
		{"GlobalAvgPool2D", &op.GlobalAvgPool2D{}, []gorgonia.Value{iota(1, 1, 2, 2, 2)}, []float64{2.5, 6.5}},
		{"Upsample2D", &op.Upsample2D{Scale: 2}, []gorgonia.Value{iota(1, 1, 2, 1, 2)}, []float64{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}},
		{"Upsample2DGrad", &op.Upsample2DGrad{Scale: 2}, []gorgonia.Value{iota(1, 1, 1, 2, 4)}, []float64{1 + 2 + 5 + 6, 3 + 4 + 7 + 8}},
		{"Linear", &op.Linear{Bias: true}, []gorgonia.Value{f64([]int{1, 2}, 1, 2), f64([]int{3, 2}, 1, 0, 0, 1, 3, 4), f64([]int{3}, 10, 20, 30)}, []float64{11, 22, 41}},
		{"ReLU", &op.ReLU{}, []gorgonia.Value{f64([]int{4}, -1, 0, 2, -0.5)}, []float64{0, 0, 2, 0}},
		{"Embedding", &op.Embedding{IDDims: 1}, []gorgonia.Value{iota(0, 3, 2), i32(2, 0)}, []float64{4, 5, 0, 1}},
		{"EmbeddingGrad adds repeated ids", &op.EmbeddingGrad{IDDims: 1, Rows: 3}, []gorgonia.Value{i32(2, 0, 2), iota(1, 3, 2)}, []float64{3, 4, 0, 0, 6, 8}},
		{"Softmax of large numbers", &op.Softmax{Axis: 1}, []gorgonia.Value{f64([]int{1, 2}, 1000, 1000+math.Log(3))}, []float64{0.25, 0.75}},
		{"Softmax along the first axis", &op.Softmax{}, []gorgonia.Value{f64([]int{2, 2}, 1, 5, 1+math.Log(3), 5)}, []float64{0.25, 0.5, 0.75, 0.5}},
		{"LogSoftmax along the middle axis", &op.Softmax{Axis: 1, Log: true}, []gorgonia.Value{f64([]int{1, 2, 2}, -2000, 5, -2000+math.Log(3), 5)}, []float64{-math.Log(4), -math.Ln2, math.Log(0.75), -math.Ln2}},
		{"GELU", &op.Activation{Function: op.GELU}, []gorgonia.Value{f64([]int{5}, math.Inf(-1), -1, 0, 1, math.Inf(1))}, []float64{0, -0.15865525393145707, 0, 0.8413447460685429, math.Inf(1)}},
		{"GELU by tanh", &op.Activation{Function: op.GELUTanh}, []gorgonia.Value{f64([]int{5}, math.Inf(-1), -1, 0, 1, math.Inf(1))}, []float64{0, -0.15880800939172324, 0, 0.8411919906082768, math.Inf(1)}},
		{"SiLU", &op.Activation{Function: op.SiLU}, []gorgonia.Value{f64([]int{4}, math.Inf(-1), -math.Log(3), math.Log(3), math.Inf(1))}, []float64{0, -math.Log(3) / 4, math.Log(3) * 3 / 4, math.Inf(1)}},
		{"Sigmoid", &op.Activation{Function: op.Sigmoid}, []gorgonia.Value{f64([]int{4}, math.Inf(-1), -math.Log(3), math.Log(3), 1000)}, []float64{0, 0.25, 0.75, 1}},
		{"Tanh", &op.Activation{Function: op.Tanh}, []gorgonia.Value{f64([]int{3}, -1000, math.Log(3)/2, math.Inf(1))}, []float64{-1, 0.5, 1}},
		{"LeakyReLU", &op.Activation{Function: op.LeakyReLU, Slope: 0.25}, []gorgonia.Value{f64([]int{3}, -8, 0, 8)}, []float64{-2, 0, 8}},
		{"ReLU6", &op.Activation{Function: op.ReLU6}, []gorgonia.Value{f64([]int{4}, -8, 0.5, 6, 8)}, []float64{0, 0.5, 6, 6}},
		{"Softplus", &op.Activation{Function: op.Softplus}, []gorgonia.Value{f64([]int{4}, -1000, 0, math.Log(3), 1000)}, []float64{0, math.Ln2, math.Log(4), 1000}},
		{"GELUGrad has its limits", &op.ActivationGrad{Function: op.GELU}, []gorgonia.Value{f64([]int{3}, math.Inf(-1), 0, math.Inf(1)), f64([]int{3}, 2, 2, 2)}, []float64{0, 1, 2}},
		{"SiLUGrad has its limits", &op.ActivationGrad{Function: op.SiLU}, []gorgonia.Value{f64([]int{3}, math.Inf(-1), 0, math.Inf(1)), f64([]int{3}, 2, 2, 2)}, []float64{0, 1, 2}},
		{"LeakyReLUGrad of the result", &op.ActivationGrad{Function: op.LeakyReLU, Slope: 0.25}, []gorgonia.Value{f64([]int{3}, -2, 0, 8), f64([]int{3}, 4, 4, 4)}, []float64{1, 1, 4}},
		{"ReLU6Grad of the result", &op.ActivationGrad{Function: op.ReLU6}, []gorgonia.Value{f64([]int{3}, 0, 5, 6), f64([]int{3}, 4, 4, 4)}, []float64{0, 4, 0}},
		{"SwiGLU", &op.SwiGLU{}, []gorgonia.Value{f64([]int{2}, math.Log(3), -1000), f64([]int{2}, 4, 5)}, []float64{3 * math.Log(3), 0}},
		{"SoftCrossEntropy without the entropy", &op.SoftCrossEntropy{Divergence: true}, []gorgonia.Value{f64([]int{2, 2}, 0, math.Log(3), 7, 7), f64([]int{2, 2}, 0.25, 0.75, 1, 0)}, []float64{math.Ln2 / 2}},
		{"Positions", &op.Positions{First: 1}, []gorgonia.Value{iota(0, 2, 2, 1), f64([]int{3, 1}, 5, 10, 20)}, []float64{10, 21, 12, 23}},
		{"PositionsGrad", &op.PositionsGrad{First: 1, Rows: 4}, []gorgonia.Value{iota(1, 2, 2, 1)}, []float64{0, 4, 6, 0}},
		{"Positions of each example", &op.Positions{Firsts: true}, []gorgonia.Value{iota(0, 2, 2, 1), f64([]int{3, 1}, 5, 10, 20), i32(1, 0)}, []float64{10, 21, 7, 13}},
		{"ClassToken", &op.ClassToken{}, []gorgonia.Value{iota(1, 2, 1, 1), f64([]int{1, 1, 1}, 7)}, []float64{7, 1, 7, 2}},
		{"ClassTokenGrad", &op.ClassTokenGrad{}, []gorgonia.Value{iota(1, 2, 3, 1)}, []float64{2, 3, 5, 6}},
		{"LinearCrossEntropy", &op.LinearCrossEntropy{}, []gorgonia.Value{f64([]int{2, 1}, 1, 7), f64([]int{2, 1}, 0, math.Log(3)), i32(0, -1)}, []float64{math.Log(4)}},
		{"LinearCrossEntropyGrad", &op.LinearCrossEntropyGrad{}, []gorgonia.Value{f64([]int{2, 1}, 1, 7), f64([]int{2, 1}, 0, math.Log(3)), i32(0, -1), gorgonia.NewF64(2)}, []float64{1.5 * math.Log(3), 0}},
		{"SoftmaxCrossEntropy of equal logits", &op.SoftmaxCrossEntropy{}, []gorgonia.Value{f64([]int{2, 4}, 0, 0, 0, 0, 900, 900, 900, 900), i32(1, 3)}, []float64{math.Log(4)}},
		{"SoftmaxCrossEntropy leaves label -1 out", &op.SoftmaxCrossEntropy{}, []gorgonia.Value{f64([]int{2, 2}, 0, math.Log(3), 5, 6), i32(0, -1)}, []float64{math.Log(4)}},
		{"SoftmaxCrossEntropy with smoothing", &op.SoftmaxCrossEntropy{Smoothing: 0.5}, []gorgonia.Value{f64([]int{2, 2}, 0, math.Log(3), 5, 6), i32(0, -1)}, []float64{0.75*math.Log(4) + 0.25*math.Log(4.0/3)}},
		{"SoftmaxCrossEntropyGrad with smoothing", &op.SoftmaxCrossEntropyGrad{Smoothing: 0.5}, []gorgonia.Value{f64([]int{2, 2}, 0, math.Log(3), 5, 6), i32(0, -1), gorgonia.NewF64(2)}, []float64{-1, 1, 0, 0}},
		{"SoftmaxCrossEntropy with weights", &op.SoftmaxCrossEntropy{Weights: []float32{3, 1}}, []gorgonia.Value{f64([]int{3, 2}, 0, math.Log(3), 0, math.Log(3), 5, 6), i32(0, 1, -1)}, []float64{0.75*math.Log(4) + 0.25*math.Log(4.0/3)}},
		{"SoftmaxCrossEntropy with weights and smoothing", &op.SoftmaxCrossEntropy{Smoothing: 0.5, Weights: []float32{3, 1}}, []gorgonia.Value{f64([]int{1, 2}, 0, math.Log(3)), i32(1)}, []float64{0.5*math.Log(4.0/3) + 0.25*(3*math.Log(4)+math.Log(4.0/3))}},
		{"SoftmaxCrossEntropy of labels without weight", &op.SoftmaxCrossEntropy{Weights: []float32{0, 1}}, []gorgonia.Value{f64([]int{1, 2}, 1, 2), i32(0)}, []float64{0}},
		{"SoftmaxCrossEntropyGrad of labels without weight", &op.SoftmaxCrossEntropyGrad{Smoothing: 0.1, Weights: []float32{0, 1}}, []gorgonia.Value{f64([]int{1, 2}, 1, 2), i32(0), gorgonia.NewF64(2)}, []float64{0, 0}},
		{"SoftmaxCrossEntropy of an empty batch", &op.SoftmaxCrossEntropy{}, []gorgonia.Value{f64([]int{1, 2}, 1, 2), i32(-1)}, []float64{0}},
		{"SoftmaxCrossEntropyGrad", &op.SoftmaxCrossEntropyGrad{}, []gorgonia.Value{f64([]int{2, 2}, 0, math.Log(3), 5, 6), i32(0, -1), gorgonia.NewF64(2)}, []float64{-1.5, 1.5, 0, 0}},
		{"SoftCrossEntropy leaves rows without a target out", &op.SoftCrossEntropy{}, []gorgonia.Value{f64([]int{3, 2}, 0, math.Log(3), 5, 6, 7, 8), f64([]int{3, 2}, 0.25, 0.75, 0, 0, -1, -1)}, []float64{0.25*math.Log(4) + 0.75*math.Log(4.0/3)}},
		{"SoftCrossEntropy divides by rows, not by targets", &op.SoftCrossEntropy{}, []gorgonia.Value{f64([]int{2, 2}, 900, 900, 0, 0), f64([]int{2, 2}, 2, 0, 0, 0.5)}, []float64{1.25 * math.Log(2)}},
		{"SoftCrossEntropy of impossible classes", &op.SoftCrossEntropy{}, []gorgonia.Value{f64([]int{1, 2}, 1, math.Inf(-1)), f64([]int{1, 2}, 1, 0)}, []float64{0}},
		{"SoftCrossEntropy of nothing", &op.SoftCrossEntropy{}, []gorgonia.Value{f64([]int{1, 2}, 1, 2), f64([]int{1, 2}, 0, 0)}, []float64{0}},
		{"SoftCrossEntropyGrad", &op.SoftCrossEntropyGrad{}, []gorgonia.Value{f64([]int{3, 2}, 0, math.Log(3), 5, 6, 0, 0), f64([]int{3, 2}, 1, 0, -1, -1, 1, 1), gorgonia.NewF64(2)}, []float64{-0.75, 0.75, 0, 0, 0, 0}},
		{"SoftCrossEntropyGrad of nothing", &op.SoftCrossEntropyGrad{}, []gorgonia.Value{f64([]int{1, 2}, 1, 2), f64([]int{1, 2}, 0, 0), gorgonia.NewF64(2)}, []float64{0, 0}},
		{"BinaryCrossEntropy leaves unknown targets out", &op.BinaryCrossEntropy{}, []gorgonia.Value{f64([]int{2, 2}, math.Log(3), 0, -math.Log(3), 9), f64([]int{2, 2}, 1, 0.5, 0, -1)}, []float64{(math.Log(4.0/3) + math.Log(2) + math.Log(4.0/3)) / 3}},
		{"BinaryCrossEntropy of large logits", &op.BinaryCrossEntropy{}, []gorgonia.Value{f64([]int{1, 4}, 900, 900, -900, -900), f64([]int{1, 4}, 1, 0, 1, 0)}, []float64{450}},
		{"BinaryCrossEntropy with weights", &op.BinaryCrossEntropy{PosWeights: []float32{3, 5}}, []gorgonia.Value{f64([]int{1, 2}, math.Log(3), math.Log(3)), f64([]int{1, 2}, 1, 0)}, []float64{(3*math.Log(4.0/3) + math.Log(4)) / 2}},
		{"BinaryCrossEntropy of nothing", &op.BinaryCrossEntropy{}, []gorgonia.Value{f64([]int{1, 2}, 1, 2), f64([]int{1, 2}, -1, -1)}, []float64{0}},
		{"BinaryCrossEntropyGrad", &op.BinaryCrossEntropyGrad{}, []gorgonia.Value{f64([]int{2, 2}, math.Log(3), -900, 900, 9), f64([]int{2, 2}, 1, 1, 0, -1), gorgonia.NewF64(3)}, []float64{-0.25, -1, 1, 0}},
		{"BinaryCrossEntropyGrad with weights", &op.BinaryCrossEntropyGrad{PosWeights: []float32{3, 5}}, []gorgonia.Value{f64([]int{1, 2}, math.Log(3), math.Log(3)), f64([]int{1, 2}, 1, 0), gorgonia.NewF64(2)}, []float64{-0.75, 0.75}},
		{"BinaryCrossEntropyGrad of nothing", &op.BinaryCrossEntropyGrad{}, []gorgonia.Value{f64([]int{1, 2}, 1, 2), f64([]int{1, 2}, -1, -1), gorgonia.NewF64(2)}, []float64{0, 0}},
		{"MSE", &op.MSE{Dims: 1}, []gorgonia.Value{f64([]int{2}, 1, 5), f64([]int{2}, 2, 2)}, []float64{5}},
		{"MSEGrad", &op.MSEGrad{Dims: 1}, []gorgonia.Value{f64([]int{2}, 1, 5), f64([]int{2}, 2, 2), gorgonia.NewF64(10)}, []float64{-10, 30}},
		{"BatchNorm2D", &op.BatchNorm2D{Momentum: 0.1, State: state(gorgonia.NewGraph(), "bn", tensor.Float64, 1), Mode: mode}, []gorgonia.Value{f64([]int{2, 1, 1, 2}, 1, 1, 3, 3), f64([]int{1}, 2), f64([]int{1}, 10)}, []float64{8, 8, 12, 12}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			v, err := c.op.Do(c.in...)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ref.Numbers(v)
			if err != nil {
				t.Fatal(err)
			}
			if d := distance(got, c.want); d > 1e-12 {
				t.Errorf("%v of %v is %v, want %v", c.op, c.in, got, c.want)
			}
		})
	}
}

func TestBatchNormMovesRunningStatisticsByMomentum(t *testing.T) {
	s := state(gorgonia.NewGraph(), "bn", tensor.Float64, 1)
	o := &op.BatchNorm2D{Eps: 1e-5, Momentum: 0.1, State: s, Mode: &op.Mode{}}
	in := []gorgonia.Value{f64([]int{2, 1, 1, 2}, 1, 1, 3, 3), f64([]int{1}, 1), f64([]int{1}, 0)}
	if _, err := o.Do(in...); err != nil {
		t.Fatal(err)
	}
	mean, variance := s.Mean.Data().([]float64)[0], s.Var.Data().([]float64)[0]
	if math.Abs(mean-0.2) > 1e-12 || math.Abs(variance-(0.9+0.1*4/3)) > 1e-12 {
		t.Errorf("running mean %g and variance %g, want 0.2 and %g", mean, variance, 0.9+0.1*4/3)
	}
	if _, err := o.Do(in...); err != nil {
		t.Fatal(err)
	}
	mean, variance = s.Mean.Data().([]float64)[0], s.Var.Data().([]float64)[0]
	if math.Abs(mean-0.38) > 1e-12 || math.Abs(variance-(0.81+0.19*4/3)) > 1e-12 {
		t.Errorf("after two steps running mean %g and variance %g, want 0.38 and %g", mean, variance, 0.81+0.19*4/3)
	}
	o.Mode.Inference = true
	if _, err := o.Do(in...); err != nil {
		t.Fatal(err)
	}
	if got := s.Mean.Data().([]float64)[0]; got != mean {
		t.Errorf("evaluation moved the running mean from %g to %g", mean, got)
	}
}

// A network that has gone wrong must not look well: NaN comes out where it went in.
func TestNaNIsNotHidden(t *testing.T) {
	nan := math.NaN()
	for _, o := range []gorgonia.Op{&op.ReLU{}, &op.MaxPool2D{Kernel: two, Stride: two}, &op.AvgPool2D{Kernel: two, Stride: two}, &op.GlobalAvgPool2D{}} {
		for position := range 4 {
			x := iota(1, 1, 1, 2, 2)
			x.Data().([]float64)[position] = nan
			v, err := o.Do(x)
			if err != nil {
				t.Fatal(err)
			}
			y, _ := ref.Numbers(v)
			if !slices.ContainsFunc(y, math.IsNaN) {
				t.Errorf("%v of a NaN at %d is %v, want a NaN", o, position, y)
			}
		}
	}
}

// gorgonia's ops may write over their arguments, so no result may be another's
// memory.
func TestResultsShareNoMemoryWithArguments(t *testing.T) {
	x := iota(1, 2, 2)
	for _, c := range []struct {
		op gorgonia.Op
		in gorgonia.Value
	}{
		{&op.Take{Shape: tensor.Shape{2, 2}, From: 2}, &op.Tuple{Values: []*tensor.Dense{x}}},
		{&op.Reshape{From: tensor.Shape{2, 2}, To: tensor.Shape{4}}, x},
		{&op.Dropout{Mode: &op.Mode{Inference: true}}, x},
		{&op.ReLU{}, x},
	} {
		v, err := c.op.Do(c.in)
		if err != nil {
			t.Fatal(err)
		}
		v.Data().([]float64)[0] = 100
		if got := x.Data().([]float64)[0]; got != 1 {
			t.Errorf("writing to the result of %v changed its argument to %g", c.op, got)
			x.Data().([]float64)[0] = 1
		}
	}
}

// Gradients through a frozen batch normalisation, and gorgonia's own switch.
func TestBatchNormIsLinearInEvaluation(t *testing.T) {
	g := gorgonia.NewGraph()
	x := leaf(g, "x", 2, 1, 1, 2)
	y := batchNorm(x, leaf(g, "gamma", 1), leaf(g, "beta", 1), "bn")
	_, grads, err := op.Gradients(lossOf(y))
	if err != nil {
		t.Fatal(err)
	}
	m := gorgonia.NewTapeMachine(g, gorgonia.EvalMode())
	defer m.Close()
	if !op.RegistryOf(g).Mode.Inference {
		t.Fatal("gorgonia.EvalMode did not switch the graph to evaluation")
	}
	if err := m.RunAll(); err != nil {
		t.Fatal(err)
	}
	scale := g.ByName("gamma")[0].Value().Data().([]float64)[0] / math.Sqrt(1+1e-5)
	weights := g.ByName("weights of the loss")[0].Value().Data().([]float64)
	for i, got := range grads[0].Value().Data().([]float64) {
		if want := weights[i] * scale; math.Abs(got-want) > 1e-12 {
			t.Errorf("dx[%d] is %g, want %g", i, got, want)
		}
	}
}

func TestDropoutDropsAtItsRateAndRepeats(t *testing.T) {
	const n = 20000
	ones := tensor.Ones(tensor.Float32, n)
	draw := func(name string, seed, step, stream uint64) []float32 {
		v, err := (&op.Dropout{Rate: 0.3, Seed: seed, Name: name, Mode: &op.Mode{Step: step, Stream: stream}}).Do(ones)
		if err != nil {
			t.Fatal(err)
		}
		return v.Data().([]float32)
	}
	a := draw("a", 1, 0, 0)
	kept := 0
	for _, v := range a {
		switch {
		case v == float32(1/(1-0.3)):
			kept++
		case v != 0:
			t.Fatalf("element is %g, want 0 or 1/0.7", v)
		}
	}
	if math.Abs(float64(kept)/n-0.7) > 0.015 {
		t.Errorf("kept %d of %d, want 0.7 of them", kept, n)
	}
	if !slices.Equal(a, draw("a", 1, 0, 0)) {
		t.Error("the same step dropped other elements")
	}
	for _, other := range [][]float32{draw("b", 1, 0, 0), draw("a", 2, 0, 0), draw("a", 1, 1, 0), draw("a", 1, 0, 1)} {
		same := 0
		for i := range a {
			if a[i] == other[i] {
				same++
			}
		}
		if f := float64(same) / n; math.Abs(f-(0.49+0.09)) > 0.02 {
			t.Errorf("masks of another name, seed, step or stream agree at %.3f of the elements, want 0.58", f)
		}
	}
}

func TestBadIndicesAreErrorsThatNameThem(t *testing.T) {
	cases := []struct {
		op   gorgonia.Op
		in   []gorgonia.Value
		want string
	}{
		{&op.SoftmaxCrossEntropy{}, []gorgonia.Value{iota(0, 2, 3), i32(0, 3)}, "label of example 1 is 3, want -1 to 2"},
		{&op.SoftmaxCrossEntropy{}, []gorgonia.Value{iota(0, 2, 3), i32(-2, 0)}, "label of example 0 is -2"},
		{&op.Embedding{IDDims: 1}, []gorgonia.Value{iota(0, 2, 3), i32(0, 2)}, "id 2 at position 1, want 0 to 1"},
		{&op.EmbeddingGrad{IDDims: 1, Rows: 2}, []gorgonia.Value{i32(-1), iota(0, 1, 3)}, "id -1 at position 0"},
		{&op.Linear{}, []gorgonia.Value{iota(0, 2, 3), iota(0, 2, 4)}, "want (B,In), (Out,In) and (Out)"},
		{&op.ReLU{}, []gorgonia.Value{nil}, "argument 0 has no value"},
		{&op.ReLU{}, []gorgonia.Value{i32(1)}, "argument 0 is int32, want float32 or float64"},
	}
	for _, c := range cases {
		_, err := c.op.Do(c.in...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v of %v: error %v, want one with %q", c.op, c.in, err, c.want)
		}
	}
}

// Two ops that differ in one attribute must not be taken for one node.
func TestEveryAttributeIsInTheHash(t *testing.T) {
	mode, st := &op.Mode{}, state(gorgonia.NewGraph(), "bn", tensor.Float64, 1)
	other := state(gorgonia.NewGraph(), "other", tensor.Float64, 1)
	s1, s2 := tensor.Shape{1, 2}, tensor.Shape{2, 1}
	ops := []gorgonia.Op{
		&op.Conv2D{Stride: one}, &op.Conv2D{Stride: two}, &op.Conv2D{Stride: one, Pad: one}, &op.Conv2D{Stride: [2]int{1, 2}},
		&op.Conv2D{Stride: one, Reach: op.Reach{Groups: 2}}, &op.Conv2D{Stride: one, Reach: op.Reach{Dilation: two}}, &op.Conv2D{Stride: one, Reach: op.Reach{PadMore: one}},
		&op.ConvTranspose2D{Stride: one}, &op.ConvTranspose2D{Stride: two}, &op.ConvTranspose2D{Stride: two, Pad: one}, &op.ConvTranspose2D{Stride: two, OutputPad: one}, &op.ConvTranspose2D{Stride: two, Groups: 2}, &op.ConvTranspose2D{Stride: two, Dilation: two},
		&op.Conv2DBackwardData{Stride: one, XShape: s1}, &op.Conv2DBackwardData{Stride: one, XShape: s2}, &op.Conv2DBackwardData{Stride: two, XShape: s1}, &op.Conv2DBackwardData{Stride: one, Pad: one, XShape: s1},
		&op.Conv2DBackwardWeight{Stride: one, WShape: s1}, &op.Conv2DBackwardWeight{Stride: one, WShape: s2}, &op.Conv2DBackwardWeight{Stride: two, WShape: s1}, &op.Conv2DBackwardWeight{Stride: one, Pad: one, WShape: s1},
		&op.BiasAdd{Dims: 2}, &op.BiasAdd{Dims: 4}, &op.BiasGrad{Dims: 2}, &op.BiasGrad{Dims: 4},
		&op.BatchNorm2D{State: st, Mode: mode}, &op.BatchNorm2D{State: other, Mode: mode}, &op.BatchNorm2D{State: st, Mode: mode, Eps: 1e-5}, &op.BatchNorm2D{State: st, Mode: mode, Momentum: 0.1},
		&op.BatchNorm2DGrad{Name: "a"}, &op.BatchNorm2DGrad{Name: "b"},
		&op.ReLU{}, &op.ReLUGrad{}, &op.Add{}, &op.Softmax{}, &op.SoftmaxGrad{}, &op.Softmax{Axis: 1}, &op.SoftmaxGrad{Axis: 1}, &op.Softmax{Log: true}, &op.SoftmaxGrad{Log: true},
		&op.Activation{Function: op.GELU}, &op.Activation{Function: op.SiLU}, &op.Activation{Function: op.LeakyReLU, Slope: 0.1}, &op.Activation{Function: op.LeakyReLU, Slope: 0.2},
		&op.ActivationGrad{Function: op.GELU}, &op.ActivationGrad{Function: op.SiLU}, &op.ActivationGrad{Function: op.LeakyReLU, Slope: 0.1}, &op.ActivationGrad{Function: op.LeakyReLU, Slope: 0.2},
		&op.SwiGLU{}, &op.SwiGLUGrad{}, &op.SoftCrossEntropy{Divergence: true}, &op.SoftmaxCrossEntropy{}, &op.SoftmaxCrossEntropyGrad{},
		&op.SoftmaxCrossEntropy{Smoothing: 0.1}, &op.SoftmaxCrossEntropyGrad{Smoothing: 0.1}, &op.SoftmaxCrossEntropy{Smoothing: 0.2},
		&op.SoftmaxCrossEntropy{Weights: []float32{1, 2}}, &op.SoftmaxCrossEntropy{Weights: []float32{2, 1}}, &op.SoftmaxCrossEntropyGrad{Weights: []float32{1, 2}},
		&op.SoftCrossEntropy{}, &op.SoftCrossEntropyGrad{}, &op.BinaryCrossEntropy{}, &op.BinaryCrossEntropyGrad{},
		&op.BinaryCrossEntropy{PosWeights: []float32{1, 2}}, &op.BinaryCrossEntropy{PosWeights: []float32{2, 1}}, &op.BinaryCrossEntropyGrad{PosWeights: []float32{1, 2}},
		&op.MaxPool2D{Kernel: two, Stride: one}, &op.MaxPool2D{Kernel: two, Stride: two}, &op.MaxPool2D{Kernel: three, Stride: one}, &op.MaxPool2D{Kernel: two, Stride: one, Pad: one},
		&op.MaxPool2DGrad{Kernel: two, Stride: one}, &op.MaxPool2DGrad{Kernel: two, Stride: two}, &op.MaxPool2DGrad{Kernel: three, Stride: one}, &op.MaxPool2DGrad{Kernel: two, Stride: one, Pad: one},
		&op.AvgPool2D{Kernel: two, Stride: one}, &op.AvgPool2D{Kernel: two, Stride: one, ExcludePad: true}, &op.AvgPool2D{Kernel: two, Stride: one, Pad: one},
		&op.AvgPool2DGrad{Kernel: two, Stride: one, XShape: s1}, &op.AvgPool2DGrad{Kernel: two, Stride: one, ExcludePad: true, XShape: s1}, &op.AvgPool2DGrad{Kernel: two, Stride: one, XShape: s2},
		&op.GlobalAvgPool2D{}, &op.GlobalAvgPool2DGrad{Height: 1, Width: 2}, &op.GlobalAvgPool2DGrad{Height: 2, Width: 1},
		&op.Upsample2D{Scale: 1}, &op.Upsample2D{Scale: 2}, &op.Upsample2DGrad{Scale: 1}, &op.Upsample2DGrad{Scale: 2},
		&op.Recurrent{}, &op.Recurrent{RecurrentForm: op.RecurrentForm{GRU: true}}, &op.Recurrent{RecurrentForm: op.RecurrentForm{Reverse: true}}, &op.Recurrent{RecurrentForm: op.RecurrentForm{H0: true}},
		&op.Recurrent{RecurrentForm: op.RecurrentForm{C0: true}}, &op.Recurrent{RecurrentForm: op.RecurrentForm{Lengths: true}}, &op.RecurrentGrad{}, &op.RecurrentGrad{RecurrentForm: op.RecurrentForm{GRU: true}},
		&op.Linear{}, &op.Linear{Bias: true}, &op.LinearGrad{}, &op.LinearGrad{Bias: true},
		&op.Reshape{From: s1, To: s2}, &op.Reshape{From: s2, To: s1},
		&op.Dropout{Name: "a", Rate: 0.5}, &op.Dropout{Name: "b", Rate: 0.5}, &op.Dropout{Name: "a", Rate: 0.25}, &op.Dropout{Name: "a", Rate: 0.5, Seed: 1}, &op.Dropout{Name: "a", Rate: 0.5, Backward: true},
		&op.Embedding{IDDims: 1}, &op.Embedding{IDDims: 2}, &op.EmbeddingGrad{IDDims: 1, Rows: 2}, &op.EmbeddingGrad{IDDims: 1, Rows: 3}, &op.EmbeddingGrad{IDDims: 2, Rows: 2},
		&op.MSE{Dims: 1}, &op.MSE{Dims: 2}, &op.MSEGrad{Dims: 1}, &op.MSEGrad{Dims: 2},
		&op.Take{Index: 0, Shape: s1}, &op.Take{Index: 1, Shape: s1}, &op.Take{Index: 0, Shape: s2}, &op.Take{Index: 0, Shape: s1, From: 2},
	}
	seen := map[uint32]gorgonia.Op{}
	for _, o := range ops {
		if p, ok := seen[o.Hashcode()]; ok {
			t.Errorf("%v and %v have one hash", p, o)
		}
		seen[o.Hashcode()] = o
	}
}

// colliding is an op whose hash says nothing of its attribute, as gorgonia would
// see two ops whose 32-bit hashes happen to be the same.
type colliding struct {
	op.ReLU
	attribute string
}

func (o *colliding) String() string   { return o.attribute }
func (o *colliding) Hashcode() uint32 { return 1 }

func TestCollidingNodesAreRefused(t *testing.T) {
	g := gorgonia.NewGraph()
	x := leaf(g, "x", 2)
	if _, err := op.Apply(&colliding{attribute: "a"}, x); err != nil {
		t.Fatal(err)
	}
	if _, err := op.Apply(&colliding{attribute: "b"}, x); err == nil || !strings.Contains(err.Error(), "collides") {
		t.Errorf("second op with the first's hash: error %v, want one that says it collides", err)
	}
	if err := op.CheckCollisions(g); err != nil {
		t.Errorf("graph with the first op alone: %v", err)
	}

	// The node's hash is the same and the op's is another: gorgonia keeps both.
	must(op.Apply(&evading{}, x))
	if err := op.CheckCollisions(g); err == nil || !strings.Contains(err.Error(), "one hash") {
		t.Errorf("graph with two nodes of one hash: error %v, want one that says so", err)
	}
}

type evading struct{ op.ReLU }

func (o *evading) Hashcode() uint32 { return 2 }

// gorgonia keeps two nodes of some of its ops where one would do; they compute
// the same and are let pass.
func TestEqualNodesAreNoCollision(t *testing.T) {
	g := gorgonia.NewGraph()
	x := leaf(g, "x", 1, 1, 4, 4)
	pool := func() *gorgonia.Node {
		return must(gorgonia.MaxPool2D(x, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
	}
	a, b := pool(), pool()
	must(gorgonia.Add(must(gorgonia.Tanh(a)), must(gorgonia.Sigmoid(b))))
	if err := op.CheckCollisions(g); err != nil {
		t.Errorf("two equal pools (one node: %t): %v", a == b, err)
	}
}

func TestIndicesReadAnyIntegerTypeAndViews(t *testing.T) {
	matrix := tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]int32{1, 2, 3, 4}))
	column, err := matrix.Slice(nil, gorgonia.S(1))
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		v    gorgonia.Value
		want []int
	}{
		{i32(3, -1), []int{3, -1}},
		{tensor.New(tensor.WithBacking([]int64{3, 1})), []int{3, 1}},
		{tensor.New(tensor.WithBacking([]int{3, 1})), []int{3, 1}},
		{tensor.New(tensor.WithBacking([]float32{3, 1})), []int{3, 1}},
		{tensor.New(tensor.WithBacking([]float64{3, 1})), []int{3, 1}},
		{gorgonia.NewI32(7), []int{7}},
		{column.(*tensor.Dense), []int{2, 4}},
	}
	for _, c := range cases {
		if got, err := op.Indices(c.v); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("indices of %v are %v, %v, want %v", c.v, got, err, c.want)
		}
	}
	if _, err := op.Indices(tensor.New(tensor.WithBacking([]bool{true}))); err == nil {
		t.Error("indices of bools: got no error")
	}
}

func TestStateIsNotShared(t *testing.T) {
	g := gorgonia.NewGraph()
	x, gamma, beta := leaf(g, "x", 2, 3, 2, 2), leaf(g, "gamma", 3), leaf(g, "beta", 3)
	batchNorm(x, gamma, beta, "bn")
	_, err := op.Apply(&op.BatchNorm2D{Eps: 1e-5, Momentum: 0.1, State: state(g, "bn", tensor.Float64, 3), Mode: op.RegistryOf(g).Mode}, x, gamma, beta)
	if err == nil || !strings.Contains(err.Error(), "name of its own") {
		t.Errorf("two batch normalisations of one name: error %v, want one that says so", err)
	}
}

func TestGradientsOfGradientsAreAnError(t *testing.T) {
	g := gorgonia.NewGraph()
	x := leaf(g, "x", 2, 3)
	y := must(op.Apply(&op.ReLUGrad{}, x, leaf(g, "dy", 2, 3)))
	_, _, err := op.Gradients(lossOf(y))
	if err == nil || !strings.Contains(err.Error(), "gradient ops have no gradient") {
		t.Errorf("differentiating a gradient op: error %v, want one that says it has no gradient", err)
	}
}
