package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/urfave/cli/v2"
	"gorgonia.org/gorgonia"
)

// A work is what is measured.
type work struct {
	model   string
	batch   int
	threads int
	dtype   string
}

func (w work) String() string {
	return fmt.Sprintf("model=%s/batch=%d/threads=%d/dtype=%s", w.model, w.batch, w.threads, w.dtype)
}

// A model is a network for examples of a shape.
type model struct {
	// shape is the shape of one example, without the batch.
	shape []int

	net func(x *gorgonia.Node) *gorgonia.Node
}

// models are those of --model.
var models = map[string]model{
	// This is the tutorial's model.
	"resnet18-imagenet": {[]int{3, 32, 32}, resnet(nn.ImageNet)},
	"resnet18-cifar":    {[]int{3, 32, 32}, resnet(nn.CIFAR)},
	"mobilenetv2": {[]int{3, 32, 32}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.MobileNetV2(x, nn.MobileNetV2Config{Classes: classes, Stem: nn.CIFAR, Dropout: 0.2})
	}},
	"mlp": {[]int{784}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.MLP(x, nn.MLPConfig{Hidden: []int{512, 512}, Classes: classes})
	}},
	"lenet": {[]int{1, 28, 28}, func(x *gorgonia.Node) *gorgonia.Node { return nn.LeNet(x, nn.LeNetConfig{Classes: classes}) }},
}

const classes = 10

func resnet(stem nn.Stem) func(x *gorgonia.Node) *gorgonia.Node {
	return func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: classes, Stem: stem})
	}
}

// workFlags are the flags that name one work.
func workFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "model", Value: "resnet18-imagenet", Usage: strings.Join(slices.Sorted(maps.Keys(models)), ", ")},
		&cli.IntFlag{Name: "batch", Value: 64, Usage: "examples of a step"},
		&cli.IntFlag{Name: "threads", Value: 2},
		&cli.StringFlag{Name: "dtype", Value: "float32", Usage: "float32 or bf16"},
	}
}

func workOf(c *cli.Context) work {
	return work{c.String("model"), c.Int("batch"), c.Int("threads"), c.String("dtype")}
}

// compile makes the program of w with random inputs.
func (w work) compile() (*nn.Program, error) {
	m, ok := models[w.model]
	switch {
	case !ok:
		return nil, fmt.Errorf("--model is %q, want one of %q", w.model, slices.Sorted(maps.Keys(models)))
	case w.batch < 1 || w.threads < 1:
		return nil, fmt.Errorf("--batch is %d and --threads %d, want at least 1", w.batch, w.threads)
	}
	dtype, err := nn.ParseDType(w.dtype)
	if err != nil {
		return nil, fmt.Errorf("--dtype is %q, want float32 or bf16", w.dtype)
	}
	g := gorgonia.NewGraph()
	x := nn.Input(g, "x", append([]int{w.batch}, m.shape...)...)
	loss := nn.SoftmaxCrossEntropy(m.net(x), nn.Labels(g, "labels", w.batch))
	p, err := nn.Compile(loss, nn.Config{Threads: w.threads, DType: dtype})
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, 1))
	in, err := p.Input("x")
	if err != nil {
		return nil, err
	}
	for i := range in {
		in[i] = float32(r.NormFloat64())
	}
	labels, err := p.Labels("labels")
	if err != nil {
		return nil, err
	}
	of := make([]int32, w.batch)
	for i := range of {
		of[i] = int32(r.IntN(classes))
	}
	labels.Set(of)
	return p, nil
}

// A training is a program and the rule that changes its parameters.
type training struct {
	program *nn.Program
	step    uint64
	opt     *optim.Optimizer
	pieces  []piece
	update  func(i int)
}

// A piece is a part of a parameter that one thread updates at a time.
type piece struct {
	value, grad []float32
	state       *optim.State
}

const pieceLen = 1 << 16

var sgd = optim.Config{Name: "sgd", LearningRate: 0.01, Momentum: 0.9}

// newTraining compiles the model and cuts its parameters into pieces of pieceLen, so that threads
// share the update.
func newTraining(w work) (*training, error) {
	p, err := w.compile()
	if err != nil {
		return nil, err
	}
	t := &training{program: p}
	if t.opt, err = optim.New(sgd); err != nil {
		return nil, err
	}
	for _, q := range p.Params() {
		for lo := 0; lo < len(q.Value); lo += pieceLen {
			hi := min(lo+pieceLen, len(q.Value))
			t.pieces = append(t.pieces, piece{q.Value[lo:hi], q.Gradient[lo:hi], t.opt.NewState(hi - lo)})
		}
	}
	t.update = func(i int) {
		a := t.pieces[i]
		if err := t.opt.At(t.step, 1, optim.Factors{LearningRate: 1, WeightDecay: 1}).Update(a.value, a.grad, a.state); err != nil {
			// Lengths do not fit: the program is wrong.
			panic(err)
		}
	}
	return t, nil
}

// Step is one training step.
func (t *training) Step(ctx context.Context) error {
	if err := t.program.Step(ctx, nil); err != nil {
		return err
	}
	t.program.Parallel(len(t.pieces), t.update)
	t.step++
	return nil
}

func (t *training) Close() error { return t.program.Close() }
