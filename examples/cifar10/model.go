package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// modelSettings say what the network is, and on which devices of this worker it runs.
type modelSettings struct {
	// name and stem are those of the residual network; width is the channels of its first stage,
	// 0: 64.
	name, stem string
	width      int

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
	maxBatch = 1 << 16
	maxWidth = 1 << 10
)

func modelFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "model", Value: "resnet18", Usage: "resnet18, resnet34 or resnet50"},
		&cli.StringFlag{Name: "stem", Value: "imagenet", Usage: "imagenet (the tutorial's model) or cifar (slower, more accurate)"},
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
		stem:    c.String("stem"),
		width:   c.Int("width"),
		dtype:   c.String("dtype"),
		batch:   c.Int("batch"),
		devices: c.StringSlice("devices"),
		threads: c.Int("threads"),
	}
}

func (s *modelSettings) validate() error {
	switch {
	case len(s.devices) == 0 || slices.Contains(s.devices, ""):
		return fmt.Errorf("--devices is %q, want such as cpu:0 or cuda:0,cuda:1, or auto", strings.Join(s.devices, ","))
	case s.width < 0 || s.width > maxWidth:
		return fmt.Errorf("--width is %d, want 1 to %d, or 0 for 64", s.width, maxWidth)
	case s.batch < 1 || s.batch > maxBatch:
		return fmt.Errorf("--batch is %d, want 1 to %d", s.batch, maxBatch)
	}
	return s.validateType()
}

// validateType names a device that does not take the type, before anything is loaded.
func (s *modelSettings) validateType() error {
	dtype, err := nn.ParseDType(s.dtype)
	if err != nil {
		return fmt.Errorf("--dtype: %w", err)
	}
	if slices.Equal(s.devices, []string{"auto"}) {
		return nil
	}
	devices, err := nn.ParseDevices(s.devices)
	if err != nil {
		return fmt.Errorf("--devices: %w", err)
	}
	for _, device := range devices {
		if err := (&nn.Config{Device: device, DType: dtype}).Validate(); err != nil {
			return fmt.Errorf("--dtype %s with --devices %s: %w", s.dtype, strings.Join(s.devices, ","), err)
		}
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

// A graph is the network for one batch size.
type graph struct{ logits, loss *gorgonia.Node }

// buildModel makes the graph. Only training smooths labels and weighs classes: the network is
// judged by the labels as they are.
func buildModel(s settings, training bool) (graph, error) {
	build, ok := map[string]func(*gorgonia.Node, nn.ResNetConfig) *gorgonia.Node{
		"resnet18": nn.ResNet18, "resnet34": nn.ResNet34, "resnet50": nn.ResNet50,
	}[s.model.name]
	if !ok {
		return graph{}, fmt.Errorf("--model is %q, want resnet18, resnet34 or resnet50", s.model.name)
	}
	stem, ok := map[string]nn.Stem{"imagenet": nn.ImageNet, "cifar": nn.CIFAR}[s.model.stem]
	if !ok {
		return graph{}, fmt.Errorf("--stem is %q, want imagenet or cifar", s.model.stem)
	}
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: s.training.seed})
	images, labels := nn.Input(g, "images", s.model.batch, 3, 32, 32), nn.Labels(g, "labels", s.model.batch)
	logits := build(images, nn.ResNetConfig{Classes: 10, Stem: stem, Width: s.model.width})
	var cfg nn.CrossEntropyConfig
	if training {
		cfg.Smoothing = s.training.smoothing
		for _, w := range s.training.classWeights {
			if !(w >= 0) || math.IsInf(float64(float32(w)), 0) {
				return graph{}, fmt.Errorf("--class-weights has %v, want finite numbers of at least 0", w)
			}
			cfg.ClassWeights = append(cfg.ClassWeights, float32(w))
		}
	}
	return graph{logits: logits, loss: nn.CrossEntropy(logits, labels, cfg)}, nil
}

// A network is the compiled model of one worker.
type network struct {
	// training has a program for each device.
	training []*nn.Program

	// evaluation shares the parameters of the first device; logits is its output.
	evaluation *nn.Program
	logits     *gorgonia.Node
}

// compile compiles the model for the worker's devices. Each device of the job has a seed of its
// own.
func compile(s settings, rank int) (n *network, err error) {
	dtype, err := nn.ParseDType(s.model.dtype)
	if err != nil {
		return nil, fmt.Errorf("--dtype: %w", err)
	}
	if !dtype.Native() && slices.ContainsFunc(s.model.devices, func(d string) bool { return strings.HasPrefix(d, "cpu") }) {
		fmt.Fprintf(os.Stderr, "cifar10: --dtype %v: this CPU multiplies it no faster than float32\n", dtype)
	}
	n = &network{}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	for d, device := range s.model.devices {
		g, err := buildModel(s, true)
		if err != nil {
			return n, err
		}
		program, err := nn.Compile(g.loss, nn.Config{
			Device: device, DType: dtype, Threads: s.model.threads, Seed: uint64(rank*len(s.model.devices) + d), Freeze: s.start.freeze,
		})
		if err != nil {
			return n, flagged(err)
		}
		n.training = append(n.training, program)
	}
	g, err := buildModel(s, false)
	if err != nil {
		return n, err
	}
	n.logits = g.logits
	n.evaluation, err = nn.Compile(g.loss, nn.Config{
		Device: s.model.devices[0], DType: dtype, Threads: s.model.threads, Inference: true, Share: n.training[0], Outputs: gorgonia.Nodes{g.logits},
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
