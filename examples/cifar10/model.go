package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/nn"
)

// model is the network as a graph for one batch size.
type model struct{ logits, loss *gorgonia.Node }

// buildModel makes the graph. What is evaluated has labels as they are.
func buildModel(s settings, training bool) (model, error) {
	build, ok := map[string]func(*gorgonia.Node, nn.ResNetConfig) *gorgonia.Node{
		"resnet18": nn.ResNet18, "resnet34": nn.ResNet34, "resnet50": nn.ResNet50,
	}[s.model]
	if !ok {
		return model{}, fmt.Errorf("--model is %q, want resnet18, resnet34 or resnet50", s.model)
	}
	stem, ok := map[string]nn.Stem{"imagenet": nn.ImageNet, "cifar": nn.CIFAR}[s.stem]
	if !ok {
		return model{}, fmt.Errorf("--stem is %q, want imagenet or cifar", s.stem)
	}
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: s.seed})
	images, labels := nn.Input(g, "images", s.batch, 3, 32, 32), nn.Labels(g, "labels", s.batch)
	logits := build(images, nn.ResNetConfig{Classes: 10, Stem: stem, Width: s.width})
	var cfg nn.CrossEntropyConfig
	if training {
		cfg.Smoothing = s.smoothing
		for _, w := range s.classWeights {
			if !(w >= 0) || math.IsInf(float64(float32(w)), 0) {
				return model{}, fmt.Errorf("--class-weights has %v, want finite numbers of at least 0", w)
			}
			cfg.ClassWeights = append(cfg.ClassWeights, float32(w))
		}
	}
	return model{logits: logits, loss: nn.CrossEntropy(logits, labels, cfg)}, nil
}

// compile makes a training program for each device and one that evaluates on the first device's
// parameters.
func compile(s settings, rank int) (training []*nn.Program, evaluation *nn.Program, logits *gorgonia.Node, err error) {
	dtype, err := nn.ParseDType(s.dtype)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("--dtype: %w", err)
	}
	if !dtype.Native() && slices.ContainsFunc(s.devices, func(d string) bool { return strings.HasPrefix(d, "cpu") }) {
		fmt.Fprintf(os.Stderr, "cifar10: --dtype %v: this CPU multiplies it no faster than float32\n", dtype)
	}
	for d, device := range s.devices {
		m, err := buildModel(s, true)
		if err != nil {
			return nil, nil, nil, err
		}
		program, err := nn.Compile(m.loss, nn.Config{Device: device, DType: dtype, Threads: s.threads, Seed: uint64(rank*len(s.devices) + d), Freeze: s.freeze})
		if err != nil {
			return nil, nil, nil, flagged(err)
		}
		training = append(training, program)
	}
	m, err := buildModel(s, false)
	if err != nil {
		return nil, nil, nil, err
	}
	evaluation, err = nn.Compile(m.loss, nn.Config{
		Device: s.devices[0], DType: dtype, Threads: s.threads, Inference: true, Share: training[0], Outputs: gorgonia.Nodes{m.logits},
	})
	return training, evaluation, m.logits, err
}
