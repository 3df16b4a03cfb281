package main

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/nn"
)

// mixes says that images are mixed, so the training loss is one of soft targets.
func (s *settings) mixes() bool { return s.mixup > 0 || s.cutMix > 0 }

// buildModel makes the graph. What is evaluated has labels as they are.
func buildModel(s settings, classes int, training bool) (loss, logits *gorgonia.Node, err error) {
	build, ok := map[string]func(*gorgonia.Node, nn.ResNetConfig) *gorgonia.Node{
		"resnet18": nn.ResNet18, "resnet34": nn.ResNet34, "resnet50": nn.ResNet50,
	}[s.model]
	if !ok {
		return nil, nil, fmt.Errorf("--model is %q, want resnet18, resnet34 or resnet50", s.model)
	}
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: s.seed})
	logits = build(nn.Input(g, "images", s.batch, 3, s.imageSize, s.imageSize), nn.ResNetConfig{Classes: classes, Stem: nn.ImageNet, Width: s.width})
	switch {
	case training && s.mixes():
		return nn.SoftCrossEntropy(logits, nn.Input(g, "targets", s.batch, classes)), logits, nil
	case training:
		return nn.SmoothedCrossEntropy(logits, nn.Labels(g, "labels", s.batch), s.smoothing), logits, nil
	}
	return nn.SoftmaxCrossEntropy(logits, nn.Labels(g, "labels", s.batch)), logits, nil
}

// compile makes a training program for each device and one that evaluates on the first device's
// parameters.
func compile(s settings, classes, rank int) (training []*nn.Program, evaluation *nn.Program, logits *gorgonia.Node, err error) {
	dtype, err := nn.ParseDType(s.dtype)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("--dtype: %w", err)
	}
	for d, device := range s.devices {
		loss, _, err := buildModel(s, classes, true)
		if err != nil {
			return nil, nil, nil, err
		}
		p, err := nn.Compile(loss, nn.Config{Device: device, DType: dtype, Threads: s.threads, Seed: uint64(rank*len(s.devices) + d), Freeze: s.freeze})
		if err != nil {
			return nil, nil, nil, err
		}
		training = append(training, p)
	}
	loss, logits, err := buildModel(s, classes, false)
	if err != nil {
		return nil, nil, nil, err
	}
	evaluation, err = nn.Compile(loss, nn.Config{
		Device: s.devices[0], DType: dtype, Threads: s.threads, Inference: true, Share: training[0], Outputs: gorgonia.Nodes{logits},
	})
	return training, evaluation, logits, err
}
