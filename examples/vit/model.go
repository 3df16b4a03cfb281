package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// modelSettings say what the network is, and on which devices of this worker it runs.
type modelSettings struct {
	// name is that of a vision transformer, and config what it and the flags make.
	name   string
	config nn.ViTConfig

	// dtype is the number type of products.
	dtype string

	// batch is the number of images of a step on each device.
	batch   int
	devices []string

	// threads are those of each device; 0: the cores of the host divided by its workers and
	// devices.
	threads int

	// recompute takes less memory and some more time.
	recompute bool
}

// What is asked for beyond these is a slip of the pen.
const (
	maxBatch  = 1 << 16
	maxLayers = 1 << 10
)

// The widths and heads of vision transformers of 12 layers (Dosovitskiy and others, 2021; Touvron
// and others, 2021).
var models = map[string]nn.ViTConfig{
	"vit-ti": {Layers: 12, Width: 192, Heads: 3},
	"vit-s":  {Layers: 12, Width: 384, Heads: 6},
	"vit-b":  {Layers: 12, Width: 768, Heads: 12},
}

func modelFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "model", Value: "vit-ti", Usage: "vit-ti (192 wide, 3 heads), vit-s (384, 6) or vit-b (768, 12)"},
		&cli.IntFlag{Name: "patch", Value: 4, Usage: "height and width of a patch, which divide the 32 of an image"},
		&cli.IntFlag{Name: "layers", Value: 12, Usage: "blocks of attention and feed-forward layers"},
		&cli.Float64Flag{Name: "dropout", Usage: "share of the values that is dropped behind the positions and in each branch, in training"},
		&cli.StringFlag{Name: "dtype", Value: "auto", Usage: "number type of products: float32, or bf16, faster with AVX512_BF16 (auto: float32)"},
		&cli.IntFlag{Name: "batch", Value: 64, Usage: "images per step on each device"},
		&cli.StringSliceFlag{Name: "devices", Value: cli.NewStringSlice("cpu:0"), Usage: "devices of this worker, such as cpu:0,cpu:1"},
		&cli.IntFlag{Name: "threads", Usage: "threads of each device (0: the cores of this host divided by its workers and devices)"},
		&cli.BoolFlag{Name: "recompute", Usage: "compute normalised rows and activations again in the backward pass: less memory, and a little more time"},
	}
}

func modelFrom(c *cli.Context) modelSettings {
	config := models[c.String("model")]
	config.Layers, config.Patch, config.Dropout, config.Classes = c.Int("layers"), c.Int("patch"), c.Float64("dropout"), 10
	return modelSettings{
		name:      c.String("model"),
		config:    config,
		dtype:     c.String("dtype"),
		batch:     c.Int("batch"),
		devices:   c.StringSlice("devices"),
		threads:   c.Int("threads"),
		recompute: c.Bool("recompute"),
	}
}

func (s *modelSettings) validate() (err error) {
	switch {
	case s.config.Width == 0:
		return fmt.Errorf("--model is %q, want vit-ti, vit-s or vit-b", s.name)
	case s.config.Patch < 1 || 32%s.config.Patch != 0:
		return fmt.Errorf("--patch is %d, want 1, 2, 4, 8, 16 or 32: it divides an image of 32×32", s.config.Patch)
	case s.config.Layers < 1 || s.config.Layers > maxLayers:
		return fmt.Errorf("--layers is %d, want 1 to %d", s.config.Layers, maxLayers)
	case !(s.config.Dropout >= 0 && s.config.Dropout < 1):
		return fmt.Errorf("--dropout is %v, want at least 0 and below 1", s.config.Dropout)
	case s.batch < 1 || s.batch > maxBatch:
		return fmt.Errorf("--batch is %d, want 1 to %d", s.batch, maxBatch)
	case len(s.devices) == 0 || slices.Contains(s.devices, ""):
		return fmt.Errorf("--devices is %q, want such as cpu:0", strings.Join(s.devices, ","))
	}
	if s.devices, err = nn.ParseDevices(s.devices); err != nil {
		return fmt.Errorf("--devices: %w", err)
	}
	dtype, err := nn.ParseDType(s.dtype)
	if err != nil {
		return fmt.Errorf("--dtype: %w", err)
	}
	for _, device := range s.devices {
		if err := (&nn.Config{Device: device, DType: dtype, Threads: s.threads, Recompute: s.recompute}).Validate(); err != nil {
			return fmt.Errorf("--dtype, --devices, --threads, --recompute: %w", err)
		}
	}
	return nil
}

// A network is the compiled model of one worker.
type network struct {
	// training has a program for each device.
	training []*nn.Program

	// evaluation shares the parameters of the first device; logits is its output.
	evaluation *nn.Program
	logits     *gorgonia.Node
}

// build makes the graph. Only training smooths labels: the network is judged by them as they are.
func (s *settings) build(training bool) (logits, loss *gorgonia.Node) {
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: s.training.seed})
	images, labels := nn.Input(g, "images", s.model.batch, 3, 32, 32), nn.Labels(g, "labels", s.model.batch)
	logits = nn.ViT(images, s.model.config)
	var cfg nn.CrossEntropyConfig
	if training {
		cfg.Smoothing = s.training.smoothing
	}
	return logits, nn.CrossEntropy(logits, labels, cfg)
}

// compile compiles the model for the worker's devices. Each device of the job has a seed of its
// own, for dropout.
func (s *settings) compile(rank int) (n *network, err error) {
	dtype, err := nn.ParseDType(s.model.dtype)
	if err != nil {
		return nil, fmt.Errorf("--dtype: %w", err)
	}
	cfg := nn.Config{DType: dtype, Threads: orElse(s.model.threads, worker.DefaultThreads(len(s.model.devices))), Recompute: s.model.recompute}
	n = &network{}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	for d, device := range s.model.devices {
		cfg.Device, cfg.Seed = device, uint64(rank*len(s.model.devices)+d)
		_, loss := s.build(true)
		program, err := nn.Compile(loss, cfg)
		if err != nil {
			return n, err
		}
		n.training = append(n.training, program)
	}
	logits, loss := s.build(false)
	cfg.Device, cfg.Inference, cfg.Share, cfg.Outputs = s.model.devices[0], true, n.training[0], gorgonia.Nodes{logits}
	n.logits = logits
	n.evaluation, err = nn.Compile(loss, cfg)
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
