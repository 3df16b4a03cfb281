package main

import (
	"errors"
	"fmt"
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
	// layers, heads and width are those of the GPT, context its positions.
	layers, heads, width, context int

	// given are the flags of sizes that were given.
	given []string

	// vocabulary is the tokenizer's.
	vocabulary int

	// started is what the config.json of --init-from says of the model; nil: the flags say it.
	started *nn.GPTConfig

	dropout float64

	// noBias leaves the biases out, as nanoGPT does.
	noBias bool

	// dtype is the number type of linear layers.
	dtype string

	// batch is the number of windows of a step on each device.
	batch int

	// devices are those of this worker.
	devices []string

	// threads are those of each device; 0: resolve divides the cores of the host.
	threads int
}

// What is asked for beyond these is a slip of the pen; below, nn.Compile says what does not fit the
// machine. The batch is of one device.
const (
	maxBatch  = 1 << 16
	maxWidth  = 1 << 14
	maxLayers = 1 << 10
	maxLength = 1 << 20
)

func modelFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "layers", Value: 4, Usage: "blocks"},
		&cli.IntFlag{Name: "heads", Value: 4, Usage: "attention heads of a block"},
		&cli.IntFlag{Name: "width", Value: 128, Usage: "numbers of a position between blocks; a multiple of --heads"},
		&cli.IntFlag{Name: "context", Value: 64, Usage: "bytes, or tokens of --tokenizer, that the model sees at once"},
		&cli.Float64Flag{Name: "dropout", Usage: "share of numbers that is dropped in training, such as 0.2 where the text is small for the model"},
		&cli.BoolFlag{Name: "no-bias", Usage: "leave out biases of linear layers and normalisations, as nanoGPT does"},
		&cli.StringFlag{Name: "dtype", Value: "float32", Usage: "number type of linear layers: float32, or bf16, faster with AVX512_BF16"},
		&cli.IntFlag{Name: "batch", Value: 12, Usage: "windows of the text per step on each device"},
		&cli.StringSliceFlag{Name: "devices", Value: cli.NewStringSlice("cpu:0"), Usage: "devices of this worker: cpu:0,cpu:1"},
		&cli.IntFlag{Name: "threads", Usage: "threads of each device (0: the cores of this host divided by its workers and devices)"},
	}
}

func modelFrom(c *cli.Context) modelSettings {
	var given []string
	for _, name := range []string{"layers", "heads", "width"} {
		if c.IsSet(name) {
			given = append(given, name)
		}
	}
	return modelSettings{
		given:   given,
		layers:  c.Int("layers"),
		heads:   c.Int("heads"),
		width:   c.Int("width"),
		context: c.Int("context"),
		dropout: c.Float64("dropout"),
		noBias:  c.Bool("no-bias"),
		dtype:   c.String("dtype"),
		batch:   c.Int("batch"),
		devices: c.StringSlice("devices"),
		threads: c.Int("threads"),
	}
}

func (s *modelSettings) validate() error {
	switch {
	case len(s.devices) == 0 || slices.Contains(s.devices, ""):
		return fmt.Errorf("--devices is %q, want such as cpu:0 or cpu:0,cpu:1", strings.Join(s.devices, ","))
	case s.layers < 1 || s.layers > maxLayers:
		return fmt.Errorf("--layers is %d, want 1 to %d", s.layers, maxLayers)
	case s.width < 1 || s.width > maxWidth:
		return fmt.Errorf("--width is %d, want 1 to %d", s.width, maxWidth)
	case s.heads < 1 || s.width%s.heads != 0:
		return fmt.Errorf("--heads is %d with --width %d, want at least 1, and a width that is a multiple of it", s.heads, s.width)
	case s.context < 1 || s.context > maxLength:
		return fmt.Errorf("--context is %d, want 1 to %d", s.context, maxLength)
	case s.batch < 1 || s.batch > maxBatch:
		return fmt.Errorf("--batch is %d, want 1 to %d", s.batch, maxBatch)
	case !(s.dropout >= 0 && s.dropout < 1):
		return fmt.Errorf("--dropout is %v, want at least 0 and below 1", s.dropout)
	}
	return s.validateType()
}

// validateType names a device that does not take the type, before anything is loaded.
func (s *modelSettings) validateType() error {
	dtype, err := nn.ParseDType(s.dtype)
	if err != nil {
		return fmt.Errorf("--dtype: %w", err)
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

// gpt is the network. GELU is the exact one, as in models that nanoGPT trains from scratch, unless
// the config.json of --init-from says otherwise.
func (s *modelSettings) gpt() nn.GPTConfig {
	if s.started != nil {
		cfg := *s.started
		cfg.Dropout, cfg.NoBias = s.dropout, s.noBias
		return cfg
	}
	return nn.GPTConfig{
		Layers: s.layers, Heads: s.heads, Width: s.width, Positions: s.context, Vocabulary: s.vocabulary,
		Dropout: s.dropout, NoBias: s.noBias, Activation: "none",
	}
}

// buildLoss makes the graph of the loss, without logits.
func buildLoss(s settings) *gorgonia.Node {
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: s.training.seed})
	tokens, labels := nn.IDs(g, "tokens", s.model.batch, s.model.context), nn.Labels(g, "labels", s.model.batch, s.model.context)
	return nn.GPTLoss(tokens, labels, s.model.gpt(), nn.CrossEntropyConfig{})
}

// A network is the compiled model of one worker.
type network struct {
	// training has a program for each device.
	training []*nn.Program

	// evaluation shares the parameters of the first device.
	evaluation *nn.Program
}

// compileTraining compiles the model for a device.
func (s *settings) compileTraining(device int, cfg nn.Config) (*nn.Program, error) {
	dtype, err := nn.ParseDType(s.model.dtype)
	if err != nil {
		return nil, fmt.Errorf("--dtype: %w", err)
	}
	cfg.Device, cfg.DType, cfg.Threads = s.model.devices[device], dtype, s.model.threads
	return nn.Compile(buildLoss(*s), cfg)
}

// compile compiles the model for the worker's devices. Each device of the job has a seed of its
// own.
func compile(s settings, rank int) (n *network, err error) {
	if dtype, err := nn.ParseDType(s.model.dtype); err == nil && !dtype.Native() {
		fmt.Fprintf(os.Stderr, "gpt: --dtype %v: this CPU multiplies it no faster than float32\n", dtype)
	}
	n = &network{}
	defer func() {
		if err != nil {
			err = errors.Join(flagged(err), n.close())
		}
	}()
	for d := range s.model.devices {
		program, err := s.compileTraining(d, nn.Config{Seed: uint64(rank*len(s.model.devices) + d), Freeze: s.start.freeze})
		if err != nil {
			return n, err
		}
		n.training = append(n.training, program)
	}
	n.evaluation, err = s.compileTraining(0, nn.Config{Inference: true, Share: n.training[0]})
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
