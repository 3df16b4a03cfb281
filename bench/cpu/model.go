package main

import (
	"context"
	"errors"
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

// A model is a loss over random data, and the rule that trains it.
type model struct {
	loss func(batch int) *gorgonia.Node

	// numbers, labels and ids are the names of inputs: of random numbers, and of random integers
	// below a number.
	numbers     string
	labels, ids map[string]int

	// rule is the update; without a name there is none.
	rule optim.Config
}

// models are those of --model that are trained.
var models = map[string]model{
	// This is the tutorial's model.
	"resnet18-imagenet": classifier(resnet(nn.ImageNet), 3, 32, 32),
	"resnet18-cifar":    classifier(resnet(nn.CIFAR), 3, 32, 32),
	"mlp": classifier(func(x *gorgonia.Node) *gorgonia.Node {
		return nn.MLP(x, nn.MLPConfig{Hidden: []int{512, 512}, Classes: classes})
	}, 784),
	"lenet": classifier(func(x *gorgonia.Node) *gorgonia.Node { return nn.LeNet(x, nn.LeNetConfig{Classes: classes}) }, 1, 28, 28),

	// These strides make it 88 million multiply-adds an image.
	"mobilenetv2": classifier(func(x *gorgonia.Node) *gorgonia.Node {
		return nn.MobileNetV2(x, nn.MobileNetV2Config{Classes: classes, Stem: nn.CIFAR, Dropout: 0.2})
	}, 3, 32, 32),
	"vit-ti4": classifier(func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ViT(x, nn.ViTConfig{Layers: 12, Heads: 3, Width: 192, Patch: 4, Classes: classes})
	}, 3, 32, 32).with(adamW),
	"lstm": classifier(func(x *gorgonia.Node) *gorgonia.Node {
		_, h, _ := nn.LSTM(x, "lstm", nn.RecurrentConfig{Hidden: 256})
		return nn.Linear(nn.Reshape(h, x.Shape()[0], 256), "fc", nn.LinearConfig{Out: classes})
	}, 128, 256).with(adamW),
	"gpt-10m":           languageModel(gpt10M, 256),
	"gpt2-124m":         languageModel(gpt2, 64),
	"attention":         attention(6, 1024, 64),
	"attention-unfused": attention(6, 1024, 64),
}

const classes = 10

var (
	sgd   = optim.Config{Name: "sgd", LearningRate: 0.01, Momentum: 0.9}
	adamW = optim.Config{Name: "adamw", LearningRate: 1e-4, WeightDecay: 0.1}
)

// classifier is a network for examples of a shape, which gives logits.
func classifier(net func(x *gorgonia.Node) *gorgonia.Node, shape ...int) model {
	loss := func(batch int) *gorgonia.Node {
		g := gorgonia.NewGraph()
		x := nn.Input(g, "x", append([]int{batch}, shape...)...)
		return nn.SoftmaxCrossEntropy(net(x), nn.Labels(g, "labels", batch))
	}
	return model{loss: loss, numbers: "x", labels: map[string]int{"labels": classes}, rule: sgd}
}

// with is the model under another rule.
func (m model) with(rule optim.Config) model {
	m.rule = rule
	return m
}

func resnet(stem nn.Stem) func(x *gorgonia.Node) *gorgonia.Node {
	return func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: classes, Stem: stem})
	}
}

// fill gives the program's inputs random values.
func (m model) fill(p *nn.Program) error {
	r := rand.New(rand.NewPCG(1, 1))
	if m.numbers != "" {
		in, err := p.Input(m.numbers)
		if err != nil {
			return err
		}
		for i := range in {
			in[i] = float32(r.NormFloat64())
		}
	}
	integers := func(below, n int) []int32 {
		of := make([]int32, n)
		for i := range of {
			of[i] = int32(r.IntN(below))
		}
		return of
	}
	for name, below := range m.ids {
		in, err := p.IDs(name)
		if err != nil {
			return err
		}
		in.Set(integers(below, in.Len()))
	}
	for name, below := range m.labels {
		in, err := p.Labels(name)
		if err != nil {
			return err
		}
		in.Set(integers(below, in.Len()))
	}
	return nil
}

// workFlags are the flags that name one work.
func workFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "model", Value: "resnet18-imagenet", Usage: strings.Join(slices.Sorted(maps.Keys(models)), ", ") + "; serve also has " + sampleName + " and " + readName},
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
	p, err := nn.Compile(m.loss(w.batch), nn.Config{Threads: w.threads, DType: dtype})
	if err != nil {
		return nil, err
	}
	if err := m.fill(p); err != nil {
		return nil, errors.Join(err, p.Close())
	}
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

	// decay is the factor of weight decay: biases and normalisations have none.
	decay float64

	state *optim.State
}

const pieceLen = 1 << 16

// newTraining compiles the model.
func newTraining(w work) (*training, error) {
	p, err := w.compile()
	if err != nil {
		return nil, err
	}
	return trainingOf(p, models[w.model].rule)
}

// trainingOf trains a program, which it closes if that fails. It cuts parameters into pieces of
// pieceLen, so that threads share the update.
func trainingOf(p *nn.Program, rule optim.Config) (*training, error) {
	t := &training{program: p}
	if rule.Name == "" {
		return t, nil
	}
	var err error
	if t.opt, err = optim.New(rule); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	for _, q := range p.Params() {
		decay := 1.0
		if len(q.Shape) == 1 {
			decay = 0
		}
		for lo := 0; lo < len(q.Value); lo += pieceLen {
			hi := min(lo+pieceLen, len(q.Value))
			t.pieces = append(t.pieces, piece{q.Value[lo:hi], q.Gradient[lo:hi], decay, t.opt.NewState(hi - lo)})
		}
	}
	t.update = func(i int) {
		a := t.pieces[i]
		if err := t.opt.At(t.step, 1, optim.Factors{LearningRate: 1, WeightDecay: a.decay}).Update(a.value, a.grad, a.state); err != nil {
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

// plan is the bytes of the program's memory plan.
func (t *training) plan() int64 { return t.program.Memory().Total() }

func (t *training) Close() error { return t.program.Close() }
