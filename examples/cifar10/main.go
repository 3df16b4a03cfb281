// Command cifar10 trains a residual network on CIFAR-10, alone or as a worker of a job:
//
//	launch -n 2 -s 2 -- cifar10 --data data/cifar10
//	launch -n 2 -s 2 -H hosts --sync-dst-dir /home/me/job -- ./cifar10 --stem cifar --optimizer sgd --lr 0.1 --momentum 0.9 --schedule cosine --augment --epochs 30
//
// A recipe that is quick to a good accuracy on a GPU:
//
//	launch -n 1 -s 1 -- cifar10 --data data/cifar10 --devices cuda:0 --stem cifar --batch 512 --optimizer nag --lr 0.4 --momentum 0.9 \
//		--weight-decay 5e-4 --decay-weights-only --label-smoothing 0.1 --schedule onecycle --augment --epochs 24
//
// Without --data it trains on synthetic images.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/adapt"
	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/examples/internal/program"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/version"
	"github.com/paragon-train/paragon/worker"
)

func main() {
	text, code := program.Ending(newApp().Run(os.Args))
	if text != "" {
		fmt.Fprintln(os.Stderr, "cifar10:", text)
	}
	os.Exit(code)
}

func newApp() *cli.App {
	return &cli.App{
		Name:            "cifar10",
		Usage:           "train a residual network on CIFAR-10",
		Version:         version.Text(),
		HideHelpCommand: true,
		Flags:           flags(),
		Action:          run,
		OnUsageError:    program.OnUsageError,
		Description: `Run it alone, or as a worker of a job:

   cifar10 --epochs 2
   launch -n 2 -s 2 -- cifar10 --data data/cifar10
   launch -n 2 -s 2 -- cifar10 --data data/cifar10 --stem cifar --optimizer sgd --lr 0.1 --momentum 0.9 --weight-decay 5e-4 --schedule cosine --augment --epochs 30

With --adapt the batch grows as the gradients' noise does:

   launch -n 2 -s 2 -- cifar10 --data data/cifar10 --batch 32 --adapt --max-batch 512

Without --data it trains on synthetic images. --download fetches CIFAR-10 first.`,
	}
}

func run(c *cli.Context) error {
	if err := program.NoArguments(c); err != nil {
		return err
	}
	s := fromFlags(c)
	if err := s.validate(); err != nil {
		return kvstore.Final(err) // launch need not start it again
	}
	stop, leave, forget := program.Signals()
	defer forget()
	s.stop, s.leave = stop, leave
	return train(context.Background(), s)
}

// What is asked for beyond these is a slip of the pen; below, nn.Compile says what does not fit the
// machine.
const (
	maxBatch = 1 << 16 // images of a device
	maxWidth = 1 << 10
)

// settings are the flags.
type settings struct {
	data                      string
	download                  bool
	trainExamples, testImages int

	model, stem, dtype string
	width              int
	smoothing          float64
	classWeights       []float64
	batch              int
	devices            []string
	threads            int

	adapt  worker.AdaptConfig // with --adapt
	adapts bool

	epochs, evalSteps, earlyStop                    int
	ema                                             float64
	maxSteps                                        uint64
	optimizer, schedule                             string
	learningRate, momentum, weightDecay, warmEpochs float64
	augment, decayWeightsOnly                       bool
	seed                                            uint64

	store       string
	compression kvstore.Compression
	// staleness is that of dist_async; below 0: no bound.
	staleness      int
	localSteps     int // 0: none
	outerRate      float64
	outerMomentum  float64
	updateOnWorker bool
	checkpoint     worker.CheckpointConfig
	initFrom       string
	// importing says how the model of initFrom is taken.
	importing checkpoint.ImportConfig
	freeze    []string
	out       string
	printHash bool
	allRanks  bool

	stop  <-chan struct{} // closed by Ctrl-C
	leave <-chan struct{} // closed by SIGTERM
}

// validate names the first flag that cannot be and that nobody else looks at before the work
// begins.
func (s *settings) validate() error {
	switch {
	case len(s.devices) == 0 || slices.Contains(s.devices, ""):
		return fmt.Errorf("--devices is %q, want such as cpu:0 or cuda:0,cuda:1, or auto", strings.Join(s.devices, ","))
	case s.width < 0 || s.width > maxWidth:
		return fmt.Errorf("--width is %d, want 1 to %d, or 0 for 64", s.width, maxWidth)
	case !(s.smoothing >= 0 && s.smoothing < 1):
		return fmt.Errorf("--label-smoothing is %v, want at least 0 and below 1", s.smoothing)
	case len(s.classWeights) != 0 && len(s.classWeights) != 10:
		return fmt.Errorf("--class-weights has %d numbers, want one for each of the 10 classes, separated by commas", len(s.classWeights))
	case s.batch < 1 || s.batch > maxBatch:
		return fmt.Errorf("--batch is %d, want 1 to %d", s.batch, maxBatch)
	case s.epochs < 1:
		return fmt.Errorf("--epochs is %d, want at least 1", s.epochs)
	case s.evalSteps < 0:
		return fmt.Errorf("--eval-steps is %d, want at least 1, or 0 for none", s.evalSteps)
	case !(s.ema >= 0 && s.ema < 1):
		return fmt.Errorf("--ema is %v, want above 0 and below 1, such as 0.999, or 0 for none", s.ema)
	case s.ema > 0 && s.earlyStop > 0:
		return errors.New("--ema with --early-stop, want one of them: each makes another model the result")
	case s.ema > 0 && (s.store == "dist_async" || s.localSteps > 0):
		return errors.New("--ema with --kvstore dist_async or --local-steps, want neither: the workers have different values")
	case s.earlyStop < 0:
		return fmt.Errorf("--early-stop is %d, want at least 1, or 0 to train all epochs", s.earlyStop)
	case s.earlyStop > 0 && s.store == "dist_async":
		return errors.New("--early-stop with --kvstore dist_async, want dist_sync: its workers have no step in common")
	case !(s.warmEpochs >= 0 && s.warmEpochs <= float64(s.epochs)):
		return fmt.Errorf("--warmup-epochs is %v, want 0 to the %d of --epochs", s.warmEpochs, s.epochs)
	case s.staleness >= 0 && s.store != "dist_async":
		return fmt.Errorf("--staleness is %d with --kvstore %s, want dist_async", s.staleness, s.store)
	case s.localSteps < 0:
		return fmt.Errorf("--local-steps is %d, want at least 1, or 0 for none", s.localSteps)
	case s.localSteps > 0 && !(s.outerRate > 0):
		return fmt.Errorf("--outer-lr is %v, want above 0", s.outerRate)
	case s.checkpoint.Resume && s.checkpoint.Dir == "":
		return errors.New("--resume needs --checkpoint-dir, the folder to resume from")
	case s.initFrom == "" && (len(s.importing.Skip) > 0 || len(s.importing.Rename) > 0 || s.importing.IgnoreMismatched):
		return errors.New("--init-skip, --init-rename and --init-ignore-mismatched need --init-from, the file of the model")
	case s.checkpoint.ResumeStep > 0 && !s.checkpoint.Resume:
		return errors.New("--resume-step needs --resume")
	case s.checkpoint.EverySteps < 0:
		return fmt.Errorf("--checkpoint-steps is %d, want at least 1, or 0 for none", s.checkpoint.EverySteps)
	case s.checkpoint.Every < 0:
		return fmt.Errorf("--checkpoint-every is %v, want such as 10m, or 0 for none", s.checkpoint.Every)
	}
	for flag, n := range map[string]int{"train-examples": s.trainExamples, "test-examples": s.testImages} {
		if n < 0 || s.data == "" && n > data.MaxSynthetic {
			return fmt.Errorf("--%s is %d, want at least 1, or 0 for all; of synthetic images at most %d", flag, n, data.MaxSynthetic)
		}
	}
	if err := s.checkType(); err != nil {
		return err
	}
	if err := s.checkAdapt(); err != nil {
		return err
	}
	if _, err := s.outer(); err != nil {
		return fmt.Errorf("--outer-lr, --outer-momentum: %w", err)
	}
	if err := s.compression.Validate(); err != nil {
		return fmt.Errorf("--compression: %w", err)
	}
	_, err := optimizer(*s, 1)
	return err
}

// checkType says what devices take the type, before anything is loaded.
func (s *settings) checkType() error {
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

func flags() []cli.Flag {
	list := []cli.Flag{
		&cli.StringFlag{Name: "data", Usage: "CIFAR-10: the binary archive (.tar.gz) or the folder of its .bin files", EnvVars: []string{"PARAGON_CIFAR10"}},
		&cli.BoolFlag{Name: "download", Usage: "fetch CIFAR-10 into the folder --data first"},
		&cli.IntFlag{Name: "train-examples", Usage: "use only this many training images (0: all; of synthetic ones: 10,000)"},
		&cli.IntFlag{Name: "test-examples", Usage: "use only this many test images (0: all; of synthetic ones: 2,000)"},

		&cli.StringFlag{Name: "model", Value: "resnet18", Usage: "resnet18, resnet34 or resnet50"},
		&cli.StringFlag{Name: "stem", Value: "imagenet", Usage: "imagenet (the tutorial's model) or cifar (slower, more accurate)"},
		&cli.IntFlag{Name: "width", Usage: "channels of the first stage; the others have 2, 4 and 8 times as many (0: 64)"},
		&cli.StringFlag{Name: "dtype", Value: "auto", Usage: "number type of convolutions and linear layers: on CPUs float32, or bf16, faster with AVX512_BF16; on GPUs bf16, fp16 (the loss is scaled), tf32 or float32 (auto: float32 on CPUs, bf16 on GPUs)"},
		&cli.IntFlag{Name: "batch", Value: 64, Usage: "images per step on each device"},
		&cli.StringSliceFlag{Name: "devices", Value: cli.NewStringSlice("cpu:0"), Usage: "devices of this worker: cpu:0,cpu:1 or cuda:0; auto: all GPUs of the machine, else cpu:0"},
		&cli.IntFlag{Name: "threads", Usage: "threads of each device (0: the cores of this host divided by its workers and devices)"},

		&cli.BoolFlag{Name: "adapt", Usage: "choose the batch size while training, by goodput; the learning rate and the schedule are for --initial-batch, and an epoch is the progress of one pass over the data with that batch"},
		&cli.IntFlag{Name: "max-batch", Usage: "with --adapt: the largest batch of all workers together (0: the batch stays at the initial one)"},
		&cli.IntFlag{Name: "initial-batch", Usage: "with --adapt: the batch of all workers together that the learning rate is for (0: --batch times the devices of all workers at the start)"},
		&cli.IntFlag{Name: "max-local-batch", Usage: "with --adapt: the largest number of images of a worker in one forward and backward pass; larger batches take several passes (0: bounded by --max-batch and the memory only)"},
		&cli.StringFlag{Name: "rule", Usage: "with --adapt: rule by which the learning rate grows with the batch: " + strings.Join(adapt.Rules(), ", ") + " (default: adamscale for Adam's family, else adascale)"},
		&cli.Float64Flag{Name: "rule-warmup-epochs", Usage: "with --rule legw: epochs of the rule's warm-up at the initial batch"},

		&cli.IntFlag{Name: "epochs", Value: 5, Usage: "passes over the data"},
		&cli.IntFlag{Name: "eval-steps", Usage: "evaluate every N steps, besides the end of each epoch; with --adapt, steps of the initial batch (0: none)"},
		&cli.IntFlag{Name: "early-stop", Usage: "end after N evaluations in a row without a smaller test loss; the best model is the result, and its checkpoint stays (0: train all epochs)"},
		&cli.Float64Flag{Name: "ema", Usage: "keep a moving average of the weights with this decay, such as 0.999, after a warm-up; it is evaluated, too, saved with checkpoints, and the result (0: none)"},
		&cli.Uint64Flag{Name: "max-steps", Usage: "stop after this many steps (0: no limit)"},
		&cli.StringFlag{Name: "optimizer", Value: "adam", Usage: "sgd, nag, adam, adamw, adagrad, rmsprop, ftrl, lars or lamb"},
		&cli.Float64Flag{Name: "lr", Value: 0.001, Usage: "learning rate"},
		&cli.Float64Flag{Name: "momentum", Usage: "momentum of sgd, nag, rmsprop and lars"},
		&cli.Float64Flag{Name: "weight-decay", Usage: "weight decay"},
		&cli.BoolFlag{Name: "decay-weights-only", Usage: "no weight decay of biases and of batch normalisations"},
		&cli.Float64Flag{Name: "label-smoothing", Usage: "share of each label that is spread over all classes, such as 0.1; in training only"},
		&cli.Float64SliceFlag{Name: "class-weights", Usage: "weight of each of the 10 classes in the loss, separated by commas, such as 1,1,1,2,1,1,1,1,1,1; in training only, on CPUs"},
		&cli.StringFlag{Name: "schedule", Value: "constant", Usage: "constant, cosine, linear (both fall to 0), or onecycle: a line up for a quarter of the steps, or --warmup-epochs, and one down to 0"},
		&cli.Float64Flag{Name: "warmup-epochs", Usage: "epochs of linear warm-up"},
		&cli.BoolFlag{Name: "augment", Usage: "random crops and flips"},
		&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of initial values, data order and augmentation; the same on all workers"},

		&cli.StringFlag{Name: "kvstore", Value: "dist_sync", Usage: "dist_sync or dist_async; without a launcher a job of one worker"},
		&cli.StringFlag{Name: "compression", Value: "none", Usage: "compression of pushed gradients: none, fp16, bf16, 2bit, 1bit or topk"},
		&cli.Float64Flag{Name: "compression-ratio", Usage: "share of the values that topk sends (0: 0.01)"},
		&cli.Float64Flag{Name: "compression-threshold", Usage: "threshold of 2bit or 1bit, in units of a gradient summed over a worker's batch"},
		&cli.Float64Flag{Name: "compression-scale", Usage: "2bit without a threshold: the threshold of each layer and step is this times the root mean square of its gradient (0: 1)"},
		&cli.StringFlag{Name: "compression-pull", Value: "none", Usage: "compression of values sent back: none, fp16 or bf16"},
		&cli.IntFlag{Name: "staleness", Value: -1, Usage: "dist_async: how many steps a worker may run ahead of the slowest one (-1: no bound)"},
		&cli.IntFlag{Name: "local-steps", Usage: "steps that a worker takes alone between two exchanges, for slow links (0: none; each step exchanges gradients)"},
		&cli.Float64Flag{Name: "outer-lr", Value: 0.7, Usage: "with --local-steps: the servers' learning rate for the mean change of the workers' values"},
		&cli.Float64Flag{Name: "outer-momentum", Value: 0.9, Usage: "with --local-steps: the servers' Nesterov momentum"},
		&cli.BoolFlag{Name: "update-on-worker", Usage: "run the optimizer on the workers; the servers only sum"},
	}
	list = append(list, program.CheckpointFlags()...)
	return append(list,
		&cli.StringFlag{Name: "init-from", Usage: "start with the model in a file: a PyTorch state dict (.safetensors), or a checkpoint"},
		&cli.StringSliceFlag{Name: "init-skip", Usage: "with --init-from: names of the model that keep their first values, such as 'fc.*'"},
		&cli.StringSliceFlag{Name: "init-rename", Usage: "with --init-from: OLD=NEW gives the file's tensors the model's names, such as 'backbone.*=*'"},
		&cli.BoolFlag{Name: "init-ignore-mismatched", Usage: "with --init-from: what has another shape in the file keeps its first values, such as a head for other classes"},
		&cli.StringSliceFlag{Name: "freeze", Usage: "names that are not trained, such as 'layer1.*'; '*' with '!fc.*' is all but fc"},
		&cli.StringFlag{Name: "out", Value: "out", Usage: "folder for the picture of the curves and, under tensorboard, TensorBoard's scalars"},
		&cli.BoolFlag{Name: "print-hash", Usage: "print the SHA-256 of the parameters at the end"},
		&cli.BoolFlag{Name: "all-ranks", Usage: "show progress and the table of each worker, not of rank 0 alone"},
	)
}

func fromFlags(c *cli.Context) settings {
	scale := c.Float64("compression-scale")
	if c.String("compression") == "2bit" && scale == 0 && c.Float64("compression-threshold") == 0 {
		// One threshold for all layers does not train this network under Adam.
		scale = 1
	}
	return settings{
		data: c.String("data"), download: c.Bool("download"),
		trainExamples: c.Int("train-examples"), testImages: c.Int("test-examples"),
		model: c.String("model"), stem: c.String("stem"), width: c.Int("width"), smoothing: c.Float64("label-smoothing"), classWeights: c.Float64Slice("class-weights"), dtype: c.String("dtype"), batch: c.Int("batch"), devices: c.StringSlice("devices"), threads: c.Int("threads"),
		adapts: c.Bool("adapt"), adapt: worker.AdaptConfig{
			Rule: c.String("rule"), InitialBatch: c.Int("initial-batch"), MaxBatch: c.Int("max-batch"), MaxLocal: c.Int("max-local-batch"), WarmupEpochs: c.Float64("rule-warmup-epochs"), Accumulation: true,
		},
		epochs: c.Int("epochs"), evalSteps: c.Int("eval-steps"), earlyStop: c.Int("early-stop"), ema: c.Float64("ema"), maxSteps: c.Uint64("max-steps"),
		optimizer: c.String("optimizer"), schedule: c.String("schedule"), learningRate: c.Float64("lr"), momentum: c.Float64("momentum"),
		weightDecay: c.Float64("weight-decay"), decayWeightsOnly: c.Bool("decay-weights-only"), warmEpochs: c.Float64("warmup-epochs"), augment: c.Bool("augment"), seed: c.Uint64("seed"),
		store: c.String("kvstore"), updateOnWorker: c.Bool("update-on-worker"),
		compression: kvstore.Compression{
			Type: c.String("compression"), Ratio: c.Float64("compression-ratio"),
			Threshold: float32(c.Float64("compression-threshold")), Scale: scale, Pull: c.String("compression-pull"),
		},
		staleness: c.Int("staleness"), localSteps: c.Int("local-steps"), outerRate: c.Float64("outer-lr"), outerMomentum: c.Float64("outer-momentum"),
		checkpoint: program.Checkpoints(c), initFrom: c.String("init-from"), freeze: c.StringSlice("freeze"),
		importing: checkpoint.ImportConfig{Skip: c.StringSlice("init-skip"), Rename: c.StringSlice("init-rename"), IgnoreMismatched: c.Bool("init-ignore-mismatched")},
		out:       c.String("out"), printHash: c.Bool("print-hash"), allRanks: c.Bool("all-ranks"),
	}
}
