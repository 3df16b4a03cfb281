package op_test

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Shapes that do not fit are errors that name the op and the shapes, and never
// reach a loop.
func TestShapesThatDoNotFitAreErrors(t *testing.T) {
	s := func(d ...int) tensor.Shape { return d }
	bn := state(gorgonia.NewGraph(), "bn", tensor.Float64, 3)
	cases := []struct {
		op   gorgonia.Op
		in   []tensor.Shape
		want string
	}{
		{&op.Conv2D{Stride: one}, []tensor.Shape{s(1, 3, 4, 4), s(2, 4, 3, 3)}, "x (1, 3, 4, 4) has 3 channels and w (2, 4, 3, 3) takes 4"},
		{&op.Conv2D{Stride: one}, []tensor.Shape{s(1, 3, 4), s(2, 3, 3, 3)}, "argument 0 has shape (1, 3, 4), want 4 dimensions"},
		{&op.Conv2D{Stride: one}, []tensor.Shape{s(1, 3, 4, 4)}, "got 1 arguments, want 2"},
		{&op.Conv2D{}, []tensor.Shape{s(1, 3, 4, 4), s(2, 3, 3, 3)}, "want kernel and stride of at least 1"},
		{&op.Conv2DBackwardData{Stride: one, XShape: s(1, 3, 4, 4)}, []tensor.Shape{s(2, 3, 3, 3), s(1, 2, 3, 3)}, "dy is (1, 2, 3, 3), want (1, 2, 2, 2)"},
		{&op.Conv2DBackwardWeight{Stride: one, WShape: s(2, 3, 3, 3)}, []tensor.Shape{s(1, 3, 4, 4), s(1, 1, 2, 2)}, "dy is (1, 1, 2, 2), want (1, 2, 2, 2)"},
		{&op.Conv2D{Stride: one, Reach: op.Reach{Groups: 2}}, []tensor.Shape{s(1, 3, 4, 4), s(2, 1, 3, 3)}, "3 channels to 2 in 2 groups"},
		{&op.Conv2D{Stride: one, Reach: op.Reach{Groups: 2}}, []tensor.Shape{s(1, 4, 4, 4), s(2, 4, 3, 3)}, "4 channels in 2 groups and w (2, 4, 3, 3) takes 4"},
		{&op.Conv2D{Stride: one, Reach: op.Reach{Dilation: [2]int{3, 1}}}, []tensor.Shape{s(1, 1, 4, 4), s(1, 1, 3, 3)}, "kernel [7 3] does not fit"},
		{&op.Conv2D{Stride: one, Reach: op.Reach{Dilation: [2]int{-1, 1}}}, []tensor.Shape{s(1, 1, 4, 4), s(1, 1, 3, 3)}, "dilation [-1 1], want at least 1"},
		{&op.ConvTranspose2D{Stride: two, OutputPad: [2]int{0, 2}}, []tensor.Shape{s(1, 2, 3, 3), s(2, 1, 3, 3)}, "output pad is 2, want less than the stride 2 or the dilation 1"},
		{&op.ConvTranspose2D{Stride: one, Groups: 2}, []tensor.Shape{s(1, 3, 3, 3), s(3, 1, 3, 3)}, "3 channels to 2 in 2 groups"},
		{&op.ConvTranspose2D{Stride: one}, []tensor.Shape{s(1, 3, 3, 3), s(2, 1, 3, 3)}, "has 3 channels and w (2, 1, 3, 3) takes 2"},
		{&op.ConvTranspose2D{Stride: one, Pad: two}, []tensor.Shape{s(1, 1, 1, 2), s(1, 1, 3, 3)}, "leave a size of -1"},
		{&op.BiasAdd{Dims: 2}, []tensor.Shape{s(2, 3), s(2)}, "x is (2, 3) and b (2)"},
		{&op.BiasGrad{Dims: 1}, []tensor.Shape{s(2)}, "dy is (2), want (N,C,...)"},
		{&op.BatchNorm2D{State: bn}, []tensor.Shape{s(1, 4, 2, 2), s(4), s(4)}, "running mean (3)"},
		{&op.BatchNorm2DGrad{}, []tensor.Shape{s(1, 4, 2, 2), s(3), s(1, 4, 2, 2), s(1, 4, 2, 2)}, "gamma (3)"},
		{&op.Add{}, []tensor.Shape{s(2, 3), s(3, 2)}, "want one shape"},
		{&op.MaxPool2D{Kernel: three, Stride: one}, []tensor.Shape{s(1, 1, 2, 2)}, "does not fit"},
		{&op.MaxPool2DGrad{Kernel: two, Stride: two}, []tensor.Shape{s(1, 1, 4, 4), s(1, 1, 4, 4)}, "dy is (1, 1, 4, 4), want (1, 1, 2, 2)"},
		{&op.AvgPool2D{Kernel: two, Stride: two, Pad: two}, []tensor.Shape{s(1, 1, 4, 4)}, "more than half"},
		{&op.AvgPool2DGrad{Kernel: two, Stride: two, XShape: s(1, 1, 4, 4)}, []tensor.Shape{s(1, 1, 4, 4)}, "dy is (1, 1, 4, 4), want (1, 1, 2, 2)"},
		{&op.GlobalAvgPool2D{}, []tensor.Shape{s(1, 4)}, "want 4 dimensions"},
		{&op.GlobalAvgPool2DGrad{Height: 1, Width: 1}, []tensor.Shape{s(1, 4, 1)}, "want 2 dimensions"},
		{&op.Upsample2D{}, []tensor.Shape{s(1, 4, 2, 2)}, "scale is 0, want at least 1"},
		{&op.Upsample2DGrad{Scale: 2}, []tensor.Shape{s(1, 4, 2, 3)}, "want height and width in multiples of 2"},
		{&op.Recurrent{}, []tensor.Shape{s(2, 3, 12), s(12, 4)}, "z is (2, 3, 12) and w (12, 4), want (B,T,4·H) and (4·H,H)"},
		{&op.Recurrent{RecurrentForm: op.RecurrentForm{GRU: true, Bias: true}}, []tensor.Shape{s(2, 3, 12), s(12, 4), s(16)}, "the bias is (16), want (12)"},
		{&op.Recurrent{RecurrentForm: op.RecurrentForm{H0: true}}, []tensor.Shape{s(2, 3, 16), s(16, 4), s(1, 4)}, "a first state is (1, 4), want (2,4)"},
		{&op.Recurrent{RecurrentForm: op.RecurrentForm{GRU: true, C0: true}}, []tensor.Shape{s(2, 3, 12), s(12, 4), s(2, 4)}, "a GRU has no c"},
		{&op.Recurrent{RecurrentForm: op.RecurrentForm{Lengths: true}}, []tensor.Shape{s(2, 3, 16), s(16, 4), s(3)}, "want (2), one for each example"},
		{&op.RecurrentGrad{}, []tensor.Shape{s(2, 3, 16), s(16, 4), s(2, 5, 4), s(2, 4, 4)}, "s is (2, 5, 4) and ds (2, 4, 4), want (2, 5, 4)"},
		{&op.Linear{Bias: true}, []tensor.Shape{s(2, 3), s(4, 3), s(3)}, "want (B,In), (Out,In) and (Out)"},
		{&op.LinearGrad{}, []tensor.Shape{s(2, 3), s(4, 3), s(2, 3)}, "want (B,In), (Out,In) and (B,Out)"},
		{&op.Reshape{From: s(2, 3), To: s(7)}, []tensor.Shape{s(2, 3)}, "x is (2, 3)"},
		{&op.Embedding{IDDims: 1}, []tensor.Shape{s(5, 2), s(3, 1)}, "want 1 dimensions"},
		{&op.EmbeddingGrad{IDDims: 1, Rows: 5}, []tensor.Shape{s(3), s(4, 2)}, "ids are (3) and dy is (4, 2)"},
		{&op.Positions{First: 2}, []tensor.Shape{s(2, 3, 4), s(4, 4)}, "x is (2, 3, 4) and P (4, 4)"},
		{&op.Positions{Firsts: true}, []tensor.Shape{s(2, 3, 4), s(4, 4), s(3)}, "want one for each example"},
		{&op.ClassToken{}, []tensor.Shape{s(2, 3, 4), s(1, 1, 3)}, "the token (1, 1, 3), want (B,T,C) and (1,1,C)"},
		{&op.ClassTokenGrad{}, []tensor.Shape{s(2, 1, 4)}, "dy is (2, 1, 4), want (B,1+T,C)"},
		{&op.PositionsGrad{First: 2, Rows: 4}, []tensor.Shape{s(2, 3, 4)}, "with T of at most 2"},
		{&op.LinearCrossEntropy{}, []tensor.Shape{s(2, 3), s(5, 4), s(2)}, "x is (2, 3), W (5, 4) and labels (2)"},
		{&op.LinearCrossEntropy{Smoothing: 1}, []tensor.Shape{s(2, 3), s(5, 3), s(2)}, "smoothing is 1"},
		{&op.LinearCrossEntropyGrad{}, []tensor.Shape{s(2, 3), s(5, 3), s(3), s()}, "labels (3)"},
		{&op.SoftmaxCrossEntropy{}, []tensor.Shape{s(2, 3), s(3)}, "logits are (2, 3) and labels (3)"},
		{&op.SoftmaxCrossEntropy{Smoothing: 1}, []tensor.Shape{s(2, 3), s(2)}, "smoothing is 1, want 0 ≤ smoothing < 1"},
		{&op.SoftmaxCrossEntropy{Weights: []float32{1, 2}}, []tensor.Shape{s(2, 3), s(2)}, "got 2 weights of classes, want the 3 of the logits"},
		{&op.SoftmaxCrossEntropy{Weights: []float32{1, -2, 0}}, []tensor.Shape{s(2, 3), s(2)}, "weight of class 1 is -2, want a finite number of at least 0"},
		{&op.SoftmaxCrossEntropyGrad{}, []tensor.Shape{s(2, 3), s(3), s()}, "logits are (2, 3) and labels (3)"},
		{&op.SoftCrossEntropy{}, []tensor.Shape{s(2, 3), s(2, 4)}, "logits are (2, 3) and targets (2, 4)"},
		{&op.SoftCrossEntropy{}, []tensor.Shape{s(2, 3), s(2)}, "argument 1 has shape (2), want 2 dimensions"},
		{&op.SoftCrossEntropyGrad{}, []tensor.Shape{s(2, 3), s(3, 3), s()}, "logits are (2, 3) and targets (3, 3)"},
		{&op.BinaryCrossEntropy{}, []tensor.Shape{s(2, 3), s(2, 4)}, "logits are (2, 3) and targets (2, 4)"},
		{&op.BinaryCrossEntropy{PosWeights: []float32{1, 2}}, []tensor.Shape{s(2, 3), s(2, 3)}, "got 2 weights of classes, want the 3 of the logits"},
		{&op.BinaryCrossEntropyGrad{PosWeights: []float32{1, -2, 0}}, []tensor.Shape{s(2, 3), s(2, 3), s()}, "weight of class 1 is -2"},
		{&op.Softmax{Axis: 2}, []tensor.Shape{s(2, 3)}, "x is (2, 3), which has no axis 2"},
		{&op.SoftmaxGrad{Axis: -1}, []tensor.Shape{s(2, 3), s(2, 3)}, "which has no axis -1"},
		{&op.Activation{Function: "Sine"}, []tensor.Shape{s(2)}, "no function is called \"Sine\""},
		{&op.Activation{Function: op.LeakyReLU, Slope: -1}, []tensor.Shape{s(2)}, "slope is -1, want a finite number of at least 0"},
		{&op.Activation{Function: op.GELU, Slope: 1}, []tensor.Shape{s(2)}, "slope is 1, and GELU has none"},
		{&op.ActivationGrad{Function: op.GELU}, []tensor.Shape{s(2), s(3)}, "want one shape"},
		{&op.SwiGLU{}, []tensor.Shape{s(2), s(3)}, "want one shape"},
		{&op.SwiGLUGrad{}, []tensor.Shape{s(2), s(2), s(3)}, "want one shape"},
		{&op.MSE{Dims: 1}, []tensor.Shape{s(2), s(3)}, "want one shape"},
		{&op.MSEGrad{Dims: 1}, []tensor.Shape{s(2), s(2)}, "got 2 arguments, want 3"},
		{&op.Dropout{Rate: -0.1}, []tensor.Shape{s(2)}, "want 0 ≤ rate < 1"},
		{&op.Take{From: 2}, []tensor.Shape{s(2)}, "want 2 dimensions"},
		{attentionOp(op.AttentionForm{Heads: 3, KVHeads: 2}), []tensor.Shape{s(1, 4, 3, 8), s(1, 4, 2, 8), s(1, 4, 2, 8)}, "3 heads of queries over 2 of keys and values, want a multiple"},
		{attentionOp(op.AttentionForm{Heads: 2, KVHeads: 2}), []tensor.Shape{s(1, 4, 2, 8), s(1, 4, 2, 6), s(1, 4, 2, 6)}, "k (1, 4, 2, 6) and v (1, 4, 2, 6), want (B,T,2,D)"},
		{attentionOp(op.AttentionForm{Heads: 2, KVHeads: 2, Packed: true}), []tensor.Shape{s(1, 4, 20)}, "20 numbers are no 2 heads of queries and 2·2"},
		{attentionOp(op.AttentionForm{Heads: 1, KVHeads: 1, Causal: true}), []tensor.Shape{s(1, 4, 1, 8), s(1, 3, 1, 8), s(1, 3, 1, 8)}, "more queries than keys"},
		{attentionOp(op.AttentionForm{Heads: 1, KVHeads: 1, Packed: true, Lengths: true}), []tensor.Shape{s(2, 4, 6), s(3)}, "lengths are (3), want (2)"},
		{attentionOp(op.AttentionForm{Heads: 1, KVHeads: 1, Packed: true, Documents: true}), []tensor.Shape{s(2, 4, 6), s(2, 3)}, "documents are (2, 3), want (2,4)"},
		{attentionOp(op.AttentionForm{Heads: 2, KVHeads: 1, Packed: true, Bias: true}), []tensor.Shape{s(2, 4, 8), s(1, 3, 4, 4)}, "want (1 or 2, 1 or 2, 4, 4)"},
		{&op.Attention{AttentionForm: op.AttentionForm{Heads: 1, KVHeads: 1, Packed: true}}, []tensor.Shape{s(2, 4, 6)}, "scale is 0"},
		{&op.Attention{Rate: 1}, []tensor.Shape{s(2, 4, 6)}, "want 0 ≤ rate < 1"},
		{&op.AttentionGrad{Forward: attentionOp(op.AttentionForm{Heads: 1, KVHeads: 1, Packed: true})}, []tensor.Shape{s(2, 4, 6), s(2, 4, 2), s(2, 4, 3)}, "do (2, 4, 3), want (2, 4, 2)"},
		{&op.CachedAttention{AttentionForm: op.AttentionForm{Heads: 1, KVHeads: 1, Packed: true, Causal: true, Scale: 1}, Cache: &op.KVCache{Positions: 3}}, []tensor.Shape{s(2, 4, 6), s(2)}, "4 positions, and the cache has room for 3"},
		{&op.CachedAttention{AttentionForm: op.AttentionForm{Heads: 1, KVHeads: 1, Packed: true, Scale: 1}, Cache: &op.KVCache{Positions: 9}}, []tensor.Shape{s(2, 4, 6), s(2)}, "want causal attention"},
		{&op.Rotary{Rotation: op.Rotation{Base: 1, Size: 3}, Turned: 1}, []tensor.Shape{s(1, 2, 1, 4)}, "rotary size is 3 and the head size 4, want an even size"},
		{&op.Rotary{Rotation: op.Rotation{Base: 1, Size: 6}, Turned: 1}, []tensor.Shape{s(1, 2, 1, 4)}, "rotary size is 6"},
		{&op.Rotary{Rotation: op.Rotation{Base: 1, Size: 4}, Turned: 2}, []tensor.Shape{s(1, 2, 1, 4)}, "2 heads are turned"},
		{&op.Rotary{Rotation: op.Rotation{Base: 1, Size: 4, Factor: 2, Original: 8, Low: 4, High: 1}, Turned: 1}, []tensor.Shape{s(1, 2, 1, 4)}, "0 < low < high"},
	}
	for _, c := range cases {
		ds := make([]gorgonia.DimSizer, len(c.in))
		for i := range c.in {
			ds[i] = c.in[i]
		}
		if got, err := c.op.InferShape(ds...); err == nil || !strings.HasPrefix(err.Error(), "op: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v of %v: shape %v, error %v, want an error with %q", c.op, c.in, got, err, c.want)
		}
	}
}

func attentionOp(form op.AttentionForm) *op.Attention {
	form.Scale = 1
	return &op.Attention{AttentionForm: form}
}

func TestTakeWantsTheTupleItWasMadeFor(t *testing.T) {
	tuple := &op.Tuple{Values: []*tensor.Dense{iota(1, 2, 2), iota(5, 3)}}
	v, err := (&op.Take{Index: 1, Shape: tensor.Shape{3}, From: 2}).Do(tuple)
	if err != nil || v.Data().([]float64)[0] != 5 {
		t.Errorf("take 1 gives %v, %v, want 5 6 7", v, err)
	}
	for _, c := range []struct {
		take op.Take
		v    gorgonia.Value
		want string
	}{
		{op.Take{Index: 2, Shape: tensor.Shape{3}, From: 2}, tuple, "the tuple is Tuple((2, 2), (3))"},
		{op.Take{Index: 1, Shape: tensor.Shape{4}, From: 2}, tuple, "the tuple is Tuple((2, 2), (3))"},
		{op.Take{Shape: tensor.Shape{2, 2}, From: 2}, iota(1, 2, 2), "want *op.Tuple"},
	} {
		if _, err := c.take.Do(c.v); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v of %v: error %v, want one with %q", &c.take, c.v, err, c.want)
		}
	}
}

// A batch normalisation's mean and scale have no gradient; asking for one is an
// error and not a wrong number.
func TestOnlyTheFirstResultIsDifferentiable(t *testing.T) {
	g := gorgonia.NewGraph()
	x := leaf(g, "x", 2, 3, 2, 2)
	bn := must(op.Apply(&op.BatchNorm2D{State: state(g, "bn", tensor.Float64, 3), Mode: op.RegistryOf(g).Mode}, x, leaf(g, "gamma", 3), leaf(g, "beta", 3)))
	mean := must(op.Apply(&op.Take{Index: 1, Shape: tensor.Shape{3}, From: 4}, bn))
	if _, _, err := op.Gradients(lossOf(mean)); err == nil {
		t.Error("gradient of a batch mean: got no error")
	}
}
