// Command imagenet trains a residual network on photographs of one's own, alone or as a worker of a
// job:
//
//	launch -n 2 -s 2 -- imagenet --data photos --image-size 64 --model resnet18 --epochs 10
//	launch -n 8 -s 8 -H hosts -- imagenet --data s3://bucket/imagenet --cache-dir /scratch/cache --mixup 0.2 --cutmix 1 --auto-augment trivial
//
// The data is a folder, or a prefix of a bucket, with train and val: each a folder with one of each
// class, train.rec and val.rec of MXNet, or shards. The recipe is the usual one of ImageNet: random
// crops, SGD with Nesterov's momentum, and a cosine schedule after a warm-up.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/checkpoint"
	_ "github.com/paragon-train/paragon/data/formats" // Parquet, WebP, BMP and TIFF
	"github.com/paragon-train/paragon/examples/internal/program"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/version"
	"github.com/paragon-train/paragon/worker"
)

func main() {
	text, code := program.Ending(newApp().Run(os.Args))
	if text != "" {
		fmt.Fprintln(os.Stderr, "imagenet:", text)
	}
	os.Exit(code)
}

func newApp() *cli.App {
	return &cli.App{
		Name:            "imagenet",
		Usage:           "train a residual network on photographs",
		Version:         version.Text(),
		HideHelpCommand: true,
		Flags:           flags(),
		Action:          run,
		OnUsageError:    program.OnUsageError,
		Description: `Run it alone, or as a worker of a job:

   imagenet --sample photos
   imagenet --data photos --image-size 32 --model resnet18 --epochs 10
   launch -n 2 -s 2 -- imagenet --data photos --image-size 64 --model resnet18 --epochs 10

--data is a folder or a URL with train and val in it: folders with one of each class, train.rec and val.rec, or shards.`,
	}
}

func run(c *cli.Context) error {
	if err := program.NoArguments(c); err != nil {
		return err
	}
	if dir := c.String("sample"); dir != "" {
		return writeSample(dir)
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

// settings are the flags.
type settings struct {
	data, trainData, valData string
	classes, firstLabel      int
	imageSize                int
	cacheDir                 string
	cacheBytes               int64
	readers, bad             int
	order                    string
	window                   int // blocks

	autoAugment   string
	randomErasing float64
	mixup, cutMix float64
	smoothing     float64
	model, dtype  string
	width, batch  int
	devices       []string
	threads       int
	epochs        int
	evalSteps     int
	ema           float64
	maxSteps      uint64
	optimizer     string
	learningRate  float64 // 0: by the batch
	momentum      float64
	weightDecay   float64
	warmEpochs    float64
	seed          uint64
	store         string
	checkpoint    worker.CheckpointConfig
	initFrom      string
	// importing says how the model of initFrom is taken.
	importing   checkpoint.ImportConfig
	freeze      []string
	out         string
	printHash   bool
	allRanks    bool
	stop, leave <-chan struct{} // closed by Ctrl-C, by SIGTERM
}

// What is asked for beyond these is a slip of the pen; below, nn.Compile says what does not fit the
// machine.
const (
	leastSize, mostSize = 32, 4096 // pixels
	mostBatch           = 1 << 16  // images of a device
	mostWidth           = 1 << 10
)

// validate names the first flag that cannot be and that nobody else looks at before the work
// begins.
func (s *settings) validate() error {
	share := func(flag string, v float64) error {
		if !(v >= 0 && v < 1) {
			return fmt.Errorf("--%s is %v, want at least 0 and below 1", flag, v)
		}
		return nil
	}
	switch {
	case s.data == "" && (s.trainData == "" || s.valData == ""):
		return errors.New("--data is not given, want the folder or URL with train and val, or --train-data and --val-data")
	case s.imageSize < leastSize || s.imageSize > mostSize:
		return fmt.Errorf("--image-size is %d, want %d to %d", s.imageSize, leastSize, mostSize)
	case s.classes < 0:
		return fmt.Errorf("--classes is %d, want at least 2, or 0 for those of the data", s.classes)
	case s.firstLabel < 0:
		return fmt.Errorf("--first-label is %d, want at least 0", s.firstLabel)
	case s.readers < 0 || s.bad < 0:
		return fmt.Errorf("--readers is %d and --bad-examples %d, want at least 0", s.readers, s.bad)
	case !slices.Contains([]string{"auto", "permutation", "blocks", "contiguous"}, s.order):
		return fmt.Errorf("--order is %q, want auto, permutation, blocks or contiguous", s.order)
	case s.window < 1:
		return fmt.Errorf("--order-window is %d, want at least 1", s.window)
	case !slices.Contains([]string{"none", "trivial", "rand"}, s.autoAugment):
		return fmt.Errorf("--auto-augment is %q, want none, trivial or rand", s.autoAugment)
	case !(s.mixup >= 0) || !(s.cutMix >= 0):
		return fmt.Errorf("--mixup is %v and --cutmix %v, want at least 0", s.mixup, s.cutMix)
	case s.width < 0 || s.width > mostWidth:
		return fmt.Errorf("--width is %d, want 1 to %d, or 0 for 64", s.width, mostWidth)
	case s.batch < 1 || s.batch > mostBatch:
		return fmt.Errorf("--batch is %d, want 1 to %d", s.batch, mostBatch)
	case s.epochs < 1:
		return fmt.Errorf("--epochs is %d, want at least 1", s.epochs)
	case s.evalSteps < 0:
		return fmt.Errorf("--eval-steps is %d, want at least 1, or 0 for none", s.evalSteps)
	case !(s.learningRate >= 0):
		return fmt.Errorf("--lr is %v, want above 0, or 0 for 0.1 times the global batch over 256", s.learningRate)
	case !(s.warmEpochs >= 0):
		return fmt.Errorf("--warmup-epochs is %v, want at least 0", s.warmEpochs)
	case s.checkpoint.Resume && s.checkpoint.Dir == "":
		return errors.New("--resume needs --checkpoint-dir, the folder to resume from")
	case s.initFrom == "" && len(s.importing.Skip) > 0:
		return errors.New("--init-skip needs --init-from, the file of the model")
	}
	if _, err := nn.ParseDType(s.dtype); err != nil {
		return fmt.Errorf("--dtype: %w", err)
	}
	if err := errors.Join(share("label-smoothing", s.smoothing), share("ema", s.ema)); err != nil {
		return err
	}
	if !(s.randomErasing >= 0 && s.randomErasing <= 1) {
		return fmt.Errorf("--random-erasing is %v, want 0 to 1", s.randomErasing)
	}
	_, err := s.update(1, 1)
	return err
}

func flags() []cli.Flag {
	list := []cli.Flag{
		&cli.StringFlag{Name: "data", Usage: "folder or URL with train and val: folders with one of each class, train.rec and val.rec, or shards", EnvVars: []string{"PARAGON_IMAGENET"}},
		&cli.StringFlag{Name: "train-data", Usage: "folder, file or URL of the training images, if they are not at --data/train"},
		&cli.StringFlag{Name: "val-data", Usage: "folder, file or URL of the images for evaluations, if they are not at --data/val"},
		&cli.StringFlag{Name: "sample", Usage: "write synthetic images into this new folder, with train and val, and end: something to train on"},
		&cli.IntFlag{Name: "classes", Usage: "number of classes, where the data does not name them (0: those of the data; of .rec files 1000)"},
		&cli.IntFlag{Name: "first-label", Usage: "number of the first class in the data: 1 for ImageNet in TFRecord as TensorFlow packs it"},
		&cli.IntFlag{Name: "image-size", Value: 224, Usage: "width and height of the images that are trained on; evaluations resize the shorter edge to 256/224 of it and take the middle"},
		&cli.IntFlag{Name: "readers", Usage: "goroutines that read and decode images (0: one for each core that the process may use)"},
		&cli.StringFlag{Name: "order", Value: "auto", Usage: "order of an epoch's images: permutation of all; blocks, such as shards, permuted and mixed within a window; contiguous, where a worker has the same run in each epoch, mixed (auto: permutation, or blocks where single images are dear to read)"},
		&cli.IntFlag{Name: "order-window", Value: 16, Usage: "with --order blocks: how many blocks are mixed with each other"},
		&cli.IntFlag{Name: "bad-examples", Usage: "leave out this many damaged images of an epoch, of all workers together; the next one ends the job"},
		&cli.StringFlag{Name: "cache-dir", Usage: "folder of this host that keeps what was read over the network"},
		&cli.Int64Flag{Name: "cache-gb", Usage: "with --cache-dir: the most that it may take, in GB (0: 64)"},

		&cli.StringFlag{Name: "auto-augment", Value: "none", Usage: "none, trivial (TrivialAugment) or rand (RandAugment: two operations of magnitude 9)"},
		&cli.Float64Flag{Name: "random-erasing", Usage: "probability with which a part of an image is erased, such as 0.1"},
		&cli.Float64Flag{Name: "mixup", Usage: "Mixup's alpha, such as 0.2: each image is mixed with the next one of its batch; on CPUs (0: none)"},
		&cli.Float64Flag{Name: "cutmix", Usage: "CutMix's alpha, such as 1; with --mixup each image has one of them; on CPUs (0: none)"},
		&cli.Float64Flag{Name: "label-smoothing", Value: 0.1, Usage: "share of each label that is spread over all classes; in training only"},

		&cli.StringFlag{Name: "model", Value: "resnet50", Usage: "resnet18, resnet34 or resnet50"},
		&cli.IntFlag{Name: "width", Usage: "channels of the first stage; the others have 2, 4 and 8 times as many (0: 64)"},
		&cli.StringFlag{Name: "dtype", Value: "auto", Usage: "number type of convolutions and linear layers: on CPUs float32, or bf16, faster with AVX512_BF16; on GPUs bf16, fp16 (the loss is scaled), tf32 or float32 (auto: float32 on CPUs, bf16 on GPUs)"},
		&cli.IntFlag{Name: "batch", Value: 64, Usage: "images per step on each device"},
		&cli.StringSliceFlag{Name: "devices", Value: cli.NewStringSlice("cpu:0"), Usage: "devices of this worker: cpu:0,cpu:1 or cuda:0; auto: all GPUs of the machine, else cpu:0"},
		&cli.IntFlag{Name: "threads", Usage: "threads of each device (0: the cores of this host divided by its workers and devices)"},

		&cli.IntFlag{Name: "epochs", Value: 90, Usage: "passes over the data"},
		&cli.IntFlag{Name: "eval-steps", Usage: "evaluate every N steps, besides the end of each epoch (0: none)"},
		&cli.Float64Flag{Name: "ema", Usage: "keep a moving average of the weights with this decay, such as 0.9999, after a warm-up; it is evaluated, too, saved with checkpoints, and the result (0: none)"},
		&cli.Uint64Flag{Name: "max-steps", Usage: "stop after this many steps (0: no limit)"},
		&cli.StringFlag{Name: "optimizer", Value: "nag", Usage: "nag (SGD with Nesterov's momentum), sgd, adamw, lars or lamb"},
		&cli.Float64Flag{Name: "lr", Usage: "learning rate (0: 0.1 times the batch of all workers together over 256)"},
		&cli.Float64Flag{Name: "momentum", Value: 0.9, Usage: "momentum of nag, sgd and lars"},
		&cli.Float64Flag{Name: "weight-decay", Value: 1e-4, Usage: "weight decay, but of biases and batch normalisations"},
		&cli.Float64Flag{Name: "warmup-epochs", Value: 5, Usage: "epochs of linear warm-up, at most a tenth of --epochs; a cosine to 0 follows"},
		&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of initial values, data order and augmentation; the same on all workers"},

		&cli.StringFlag{Name: "kvstore", Value: "dist_sync", Usage: "dist_sync or dist_async; without a launcher a job of one worker"},
	}
	list = append(list, program.CheckpointFlags()...)
	return append(list,
		&cli.StringFlag{Name: "init-from", Usage: "start with the model in a file: a PyTorch state dict (.safetensors), or a checkpoint"},
		&cli.StringSliceFlag{Name: "init-skip", Usage: "with --init-from: names of the model that keep their first values, such as 'fc.*'"},
		&cli.StringSliceFlag{Name: "freeze", Usage: "names that are not trained, such as 'layer1.*'; '*' with '!fc.*' is all but fc"},
		&cli.StringFlag{Name: "out", Value: "out", Usage: "folder for the picture of the curves and, under tensorboard, TensorBoard's scalars"},
		&cli.BoolFlag{Name: "print-hash", Usage: "print the SHA-256 of the parameters at the end"},
		&cli.BoolFlag{Name: "all-ranks", Usage: "show progress and the table of each worker, not of rank 0 alone"},
	)
}

func fromFlags(c *cli.Context) settings {
	return settings{
		data: c.String("data"), trainData: c.String("train-data"), valData: c.String("val-data"), classes: c.Int("classes"), firstLabel: c.Int("first-label"), imageSize: c.Int("image-size"),
		cacheDir: c.String("cache-dir"), cacheBytes: c.Int64("cache-gb") * 1e9, readers: c.Int("readers"), bad: c.Int("bad-examples"), order: c.String("order"), window: c.Int("order-window"),
		autoAugment: c.String("auto-augment"), randomErasing: c.Float64("random-erasing"), mixup: c.Float64("mixup"), cutMix: c.Float64("cutmix"), smoothing: c.Float64("label-smoothing"),
		model: c.String("model"), width: c.Int("width"), dtype: c.String("dtype"), batch: c.Int("batch"), devices: c.StringSlice("devices"), threads: c.Int("threads"),
		epochs: c.Int("epochs"), evalSteps: c.Int("eval-steps"), ema: c.Float64("ema"), maxSteps: c.Uint64("max-steps"),
		optimizer: c.String("optimizer"), learningRate: c.Float64("lr"), momentum: c.Float64("momentum"), weightDecay: c.Float64("weight-decay"), warmEpochs: c.Float64("warmup-epochs"),
		seed: c.Uint64("seed"), store: c.String("kvstore"), checkpoint: program.Checkpoints(c),
		initFrom: c.String("init-from"), importing: checkpoint.ImportConfig{Skip: c.StringSlice("init-skip")}, freeze: c.StringSlice("freeze"),
		out: strings.TrimSpace(c.String("out")), printHash: c.Bool("print-hash"), allRanks: c.Bool("all-ranks"),
	}
}
