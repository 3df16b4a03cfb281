package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"
	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// modelSettings say what the network is, and on which devices of this worker it runs.
type modelSettings struct {
	// name is the residual network's; width is the channels of its first stage, 0: 64.
	name  string
	width int

	// dtype is the number type of convolutions and linear layers.
	dtype string

	// batch is the number of images of a step on each device.
	batch int

	// devices are as the flag has them, until resolve replaces auto.
	devices []string

	// threads are those of each device; 0: resolve divides the cores of the host.
	threads int
}

// What is asked for beyond these is a slip of the pen; below, nn.Compile says what does not fit the
// machine. The batch is of one device.
const (
	mostBatch = 1 << 16
	mostWidth = 1 << 10
)

func modelFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "model", Value: "resnet50", Usage: "resnet18, resnet34 or resnet50"},
		&cli.IntFlag{Name: "width", Usage: "channels of the first stage; the others have 2, 4 and 8 times as many (0: 64)"},
		&cli.StringFlag{Name: "dtype", Value: "auto", Usage: "number type of convolutions and linear layers: on CPUs float32, or bf16, faster with AVX512_BF16; on GPUs bf16, fp16 (the loss is scaled), tf32 or float32 (auto: float32 on CPUs, bf16 on GPUs)"},
		&cli.IntFlag{Name: "batch", Value: 64, Usage: "images per step on each device"},
		&cli.StringSliceFlag{Name: "devices", Value: cli.NewStringSlice("cpu:0"), Usage: "devices of this worker: cpu:0,cpu:1 or cuda:0; auto: all GPUs of the machine, else cpu:0"},
		&cli.IntFlag{Name: "threads", Usage: "threads of each device (0: the cores of this host divided by its workers and devices)"},
	}
}

func modelFrom(c *cli.Context) modelSettings {
	return modelSettings{
		name:    c.String("model"),
		width:   c.Int("width"),
		dtype:   c.String("dtype"),
		batch:   c.Int("batch"),
		devices: c.StringSlice("devices"),
		threads: c.Int("threads"),
	}
}

func (s *modelSettings) validate() error {
	switch {
	case s.width < 0 || s.width > mostWidth:
		return fmt.Errorf("--width is %d, want 1 to %d, or 0 for 64", s.width, mostWidth)
	case s.batch < 1 || s.batch > mostBatch:
		return fmt.Errorf("--batch is %d, want 1 to %d", s.batch, mostBatch)
	}
	if _, err := nn.ParseDType(s.dtype); err != nil {
		return fmt.Errorf("--dtype: %w", err)
	}
	return nil
}

// resolve finds out which devices and how many threads of this machine are meant.
func (s *modelSettings) resolve() (err error) {
	if s.devices, err = nn.ParseDevices(s.devices); err != nil {
		return kvstore.Final(fmt.Errorf("--devices: %w", err))
	}
	if s.threads == 0 {
		s.threads = worker.DefaultThreads(len(s.devices))
	}
	return nil
}

// buildModel makes the graph. What is evaluated has labels as they are.
func buildModel(s settings, classes int, training bool) (loss, logits *gorgonia.Node, err error) {
	build, ok := map[string]func(*gorgonia.Node, nn.ResNetConfig) *gorgonia.Node{
		"resnet18": nn.ResNet18, "resnet34": nn.ResNet34, "resnet50": nn.ResNet50,
	}[s.model.name]
	if !ok {
		return nil, nil, fmt.Errorf("--model is %q, want resnet18, resnet34 or resnet50", s.model.name)
	}
	batch, size := s.model.batch, s.images.size
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: s.training.seed})
	logits = build(nn.Input(g, "images", batch, 3, size, size), nn.ResNetConfig{Classes: classes, Stem: nn.ImageNet, Width: s.model.width})
	switch {
	case training && s.augment.mixes():
		return nn.SoftCrossEntropy(logits, nn.Input(g, "targets", batch, classes)), logits, nil
	case training:
		return nn.SmoothedCrossEntropy(logits, nn.Labels(g, "labels", batch), s.augment.smoothing), logits, nil
	}
	return nn.SoftmaxCrossEntropy(logits, nn.Labels(g, "labels", batch)), logits, nil
}

// A network is the compiled model of one worker.
type network struct {
	// training has a program for each device.
	training []*nn.Program

	// evaluation shares the parameters of the first device; logits is its output.
	evaluation *nn.Program
	logits     *gorgonia.Node

	classes int
}

// compile compiles the model for the worker's devices. Each device of the job has a seed of its
// own.
func compile(s settings, classes, rank int) (n *network, err error) {
	dtype, err := nn.ParseDType(s.model.dtype)
	if err != nil {
		return nil, fmt.Errorf("--dtype: %w", err)
	}
	n = &network{classes: classes}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	for d, device := range s.model.devices {
		loss, _, err := buildModel(s, classes, true)
		if err != nil {
			return n, err
		}
		p, err := nn.Compile(loss, nn.Config{
			Device: device, DType: dtype, Threads: s.model.threads, Seed: uint64(rank*len(s.model.devices) + d), Freeze: s.start.freeze,
		})
		if err != nil {
			return n, err
		}
		n.training = append(n.training, p)
	}
	loss, logits, err := buildModel(s, classes, false)
	if err != nil {
		return n, err
	}
	n.logits = logits
	n.evaluation, err = nn.Compile(loss, nn.Config{
		Device: s.model.devices[0], DType: dtype, Threads: s.model.threads, Inference: true, Share: n.training[0], Outputs: gorgonia.Nodes{logits},
	})
	return n, err
}

// close closes the program that shares parameters before the one that has them.
func (n *network) close() (err error) {
	if n.evaluation != nil {
		err = n.evaluation.Close()
	}
	for _, p := range n.training {
		err = errors.Join(err, p.Close())
	}
	return err
}
