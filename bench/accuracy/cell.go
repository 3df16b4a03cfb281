package main

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
)

// A model is one of the four networks, with what it is trained with: so little that a run takes
// seconds, and so much that seeds differ by about a point. Each image is seen six to ten times, so
// what a large batch costs in generalisation shows, too.
type model struct {
	name string
	// examples is how many images of the training set, the first ones, a run trains on.
	examples int
	epochs   int

	// sgd and adam are the learning rates of both optimizers.
	sgd   float64
	adam  float64
	build func(images *gorgonia.Node) *gorgonia.Node
}

// models are trained by the cells, each with both optimizers.
var models = []model{
	{"mlp", 4096, 8, 0.02, 0.001, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.MLP(x, nn.MLPConfig{Hidden: []int{128, 64}, Classes: classes})
	}},
	{"lenet", 4096, 10, 0.02, 0.002, func(x *gorgonia.Node) *gorgonia.Node { return nn.LeNet(x, nn.LeNetConfig{Classes: classes}) }},
	{"resnet18/8", 4096, 8, 0.05, 0.001, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: classes, Stem: nn.ImageNet, Width: 8})
	}},
	{"resnet18/16", 4096, 6, 0.05, 0.001, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: classes, Stem: nn.ImageNet, Width: 16})
	}},
}

const (
	classes = 10
	// initialBatch is that of all workers together, and maxBatch the largest one.
	initialBatch = 32
	maxBatch     = 512
)

// A cell is one setting of the table.
type cell struct {
	Model     string `json:"model"`
	Optimizer string `json:"optimizer"`
	Workers   int    `json:"workers"`
}

func (c cell) String() string { return fmt.Sprintf("%s %s %d", c.Model, c.Optimizer, c.Workers) }

// cells are all settings.
func cells() (all []cell) {
	for _, m := range models {
		for _, optimizer := range []string{"sgd", "adam"} {
			for workers := 1; workers <= 2; workers++ {
				all = append(all, cell{m.name, optimizer, workers})
			}
		}
	}
	return all
}

func (c cell) model() (model, error) {
	i := slices.IndexFunc(models, func(m model) bool { return m.name == c.Model })
	if i < 0 {
		return model{}, fmt.Errorf("model %q is unknown", c.Model)
	}
	return models[i], nil
}

// optimizer is the cell's, whose learning rate falls to 0 along a cosine.
func (c cell) optimizer(m model) optim.Config {
	cfg := optim.Config{Name: c.Optimizer, LearningRate: m.adam}
	if c.Optimizer == "sgd" {
		cfg.LearningRate, cfg.Momentum = m.sgd, 0.9
	}
	cfg.Schedule = optim.Schedule{Kind: "cosine", Steps: uint64(m.epochs * m.examples / initialBatch)}
	return cfg
}

// free is the time of a step for which large batches pay best: it hardly grows with the batch.
type free struct{}

func (free) StepTime(_, _, localBatch, accumulation int) float64 {
	return 1 + float64(localBatch*(accumulation+1))/4096
}
