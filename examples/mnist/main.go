// Command mnist trains LeNet on MNIST in about a minute, alone or as a worker of a job:
//
//	mnist --data data/mnist
//	launch -n 2 -s 1 -- mnist --data data/mnist
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/version"
	"github.com/paragon-train/paragon/worker"
)

func main() {
	var s settings
	flag.StringVar(&s.data, "data", "", "folder of MNIST's idx files, .gz or not")
	flag.BoolVar(&s.download, "download", false, "fetch MNIST into --data first")
	flag.IntVar(&s.batch, "batch", 64, "images per step")
	flag.StringVar(&s.device, "device", "cpu:0", "cpu:0 or a GPU such as cuda:0; auto: the first GPU of the machine, else cpu:0")
	flag.StringVar(&s.dtype, "dtype", "auto", "number type of convolutions and linear layers: float32 or bf16, on GPUs tf32 and fp16 besides (auto: float32 on a CPU, bf16 on a GPU)")
	flag.IntVar(&s.epochs, "epochs", 3, "passes over the data")
	flag.StringVar(&s.optimizer, "optimizer", "sgd", "sgd (with momentum 0.9) or adam")
	flag.Float64Var(&s.learningRate, "learning-rate", 0.05, "learning rate of the optimizer; adam's is usually near 0.001")
	flag.StringVar(&s.out, "out", "out", "folder for TensorBoard's files, under tensorboard")
	flag.StringVar(&s.initFrom, "init-from", "", "start with the model in a file: a PyTorch state dict (.safetensors), or a checkpoint")
	flag.Func("init-skip", "with --init-from: `names` of the model that keep their first values, such as 'fc3.*'; may be repeated", list(&s.importing.Skip))
	flag.Func("init-rename", "with --init-from: `OLD=NEW` gives the file's tensors the model's names; may be repeated", list(&s.importing.Rename))
	flag.BoolVar(&s.importing.IgnoreMismatched, "init-ignore-mismatched", false, "with --init-from: what has another shape in the file keeps its first values, such as a head for other classes")
	flag.Func("freeze", "`names` that are not trained, such as 'conv*'; may be repeated", list(&s.freeze))
	version.AddFlag(flag.CommandLine)
	kvstore.ParseFlags()
	var err error
	if flag.NArg() > 0 {
		err = kvstore.Final(fmt.Errorf("got %q after the flags, want flags only; see --help", flag.Args()))
	} else {
		leave, forget := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer forget()
		s.leave = leave.Done()
		_, err = train(context.Background(), s)
	}
	switch {
	case errors.Is(err, worker.ErrRemoved):
		fmt.Fprintln(os.Stderr, "mnist: removed from the job on request; the other workers continue")
	case errors.Is(err, worker.ErrStopped):
		fmt.Fprintln(os.Stderr, "mnist: stopped on request")
		os.Exit(143)
	case err != nil:
		fmt.Fprintln(os.Stderr, "mnist:", err)
		os.Exit(1)
	}
}

// list appends the values of a flag to a list.
func list(to *[]string) func(string) error {
	return func(value string) error {
		*to = append(*to, value)
		return nil
	}
}

// flagged is an error of a compilation or an import that names flags in place of fields.
type flagged struct{ error }

var flagNames = strings.NewReplacer("Config.Freeze", "--freeze", "ImportConfig.Skip", "--init-skip", "ImportConfig.Rename", "--init-rename", "ImportConfig.IgnoreMismatched", "--init-ignore-mismatched")

func (e flagged) Error() string { return flagNames.Replace(e.error.Error()) }
func (e flagged) Unwrap() error { return e.error }

// maxBatch is the largest batch; more is a slip of the pen.
const maxBatch = 1 << 16

// settings are what the flags ask for.
type settings struct {
	// data is the folder of MNIST's files; download fetches them first.
	data     string
	download bool

	// trainExamples is how many images are trained on; 0: all.
	trainExamples int

	// batch is the number of images of a step, and epochs that of passes over the data.
	batch, epochs int
	device, dtype string

	optimizer    string
	learningRate float64

	// initFrom is the file of a model to start with, and importing how it is taken; freeze names
	// what is not trained.
	initFrom  string
	importing checkpoint.ImportConfig
	freeze    []string

	// out is the folder of TensorBoard's files.
	out string

	// leave is closed by SIGTERM: this worker leaves the job, if that can go on without it.
	leave <-chan struct{}
}

// normalise is what all images go through.
var normalise = data.Augment{Mean: data.MNISTMean, Std: data.MNISTStd}

// train is the whole job of one worker.
func train(ctx context.Context, s settings) (epochs []worker.EpochInfo, err error) {
	optimizer, err := s.check()
	if err != nil {
		return nil, kvstore.Final(err)
	}
	trainSet, testSet, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	cfg, err := s.compiling()
	if err != nil {
		return nil, kvstore.Final(err)
	}
	store, err := join(ctx, s.leave, "dist_sync")
	if err != nil {
		return nil, err
	}
	defer func() { err = leave(store, err) }()
	m, err := compile(s.batch, cfg)
	if err != nil {
		return nil, err
	}
	defer m.close()

	// NewTrainer brings the model to the other workers.
	if store.Rank() == 0 && s.initFrom != "" {
		if err := s.initialise(ctx, m.program); err != nil {
			return nil, err
		}
	}
	programs := []*nn.Program{m.program}
	feed, err := worker.NewImageFeed(worker.ImageFeedConfig{
		Programs: programs, Dataset: trainSet, Workers: store.NumWorkers(), Rank: store.Rank(), Seed: 1, Augment: normalise,
	})
	if err != nil {
		return nil, err
	}
	defer feed.Close()
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: store, Programs: programs, Optimizer: optimizer})
	if err != nil {
		return nil, err
	}
	defer trainer.Close()
	epochs, err = worker.Fit(ctx, worker.FitConfig{
		Trainer: trainer, Feed: feed, Epochs: s.epochs, Leave: s.leave,
		Evaluator: &worker.ImageEvaluator{Program: m.evaluation, Logits: m.logits, Dataset: testSet, Augment: normalise},
		Observers: []worker.Observer{worker.NewProgress(os.Stdout).OnlyRankZero(), worker.NewMetricsLines(os.Stdout), worker.TensorBoard(filepath.Join(s.out, "tensorboard"))},
	})
	if err != nil {
		return nil, err
	}
	fmt.Println()
	return epochs, worker.WriteReport(os.Stdout, epochs)
}

// check names a flag that cannot be, and returns the optimizer that the flags name.
func (s *settings) check() (optimizer optim.Config, err error) {
	switch {
	case s.data == "":
		return optimizer, errors.New("--data is empty, want the folder of MNIST's four files (with --download, the folder to fetch them into)")
	case s.batch < 1 || s.batch > maxBatch:
		return optimizer, fmt.Errorf("--batch is %d, want 1 to %d", s.batch, maxBatch)
	case s.epochs < 1:
		return optimizer, fmt.Errorf("--epochs is %d, want at least 1", s.epochs)
	}
	if c := s.importing; s.initFrom == "" && (len(c.Skip) > 0 || len(c.Rename) > 0 || c.IgnoreMismatched) {
		return optimizer, errors.New("--init-skip, --init-rename and --init-ignore-mismatched need --init-from, the file of the model")
	}
	optimizer = optim.Config{Name: s.optimizer, LearningRate: s.learningRate}
	switch s.optimizer {
	case "sgd":
		optimizer.Momentum = 0.9
	case "adam":
	default:
		return optimizer, fmt.Errorf("--optimizer is %q, want sgd or adam", s.optimizer)
	}
	if err := optimizer.Validate(); err != nil {
		return optimizer, fmt.Errorf("--learning-rate: %w", err)
	}
	return optimizer, nil
}

// load reads the images to train on and to test with.
func (s *settings) load(ctx context.Context) (trainSet, testSet *data.ImageSet, err error) {
	if s.download {
		if err := data.FetchMNIST(ctx, http.DefaultClient, s.data); err != nil {
			return nil, nil, err
		}
	}
	trainSet, testSet, err = data.LoadMNIST(s.data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, kvstore.Final(err)
	case err != nil:
		return nil, nil, err
	}
	if s.trainExamples > 0 {
		trainSet = trainSet.Head(s.trainExamples)
	}
	return trainSet, testSet, nil
}

// compiling is how the model is compiled.
func (s *settings) compiling() (nn.Config, error) {
	devices, err := nn.ParseDevices([]string{s.device})
	if err != nil {
		return nn.Config{}, fmt.Errorf("--device: %w", err)
	}
	dtype, err := nn.ParseDType(s.dtype)
	if err != nil {
		return nn.Config{}, fmt.Errorf("--dtype: %w", err)
	}
	return nn.Config{Device: devices[0], DType: dtype, Threads: worker.DefaultThreads(1), Freeze: s.freeze}, nil
}

// A model is LeNet, compiled to train and to evaluate.
type model struct {
	program, evaluation *nn.Program
	logits              *gorgonia.Node
}

// compile builds and compiles the model for batches of so many images.
func compile(batch int, cfg nn.Config) (*model, error) {
	g := gorgonia.NewGraph()
	images, labels := nn.Input(g, "images", batch, 1, 28, 28), nn.Labels(g, "labels", batch)
	m := &model{logits: nn.LeNet(images, nn.LeNetConfig{Classes: 10})}
	loss := nn.SoftmaxCrossEntropy(m.logits, labels)
	var err error
	if m.program, err = nn.Compile(loss, cfg); err != nil {
		return nil, flagged{err}
	}
	m.evaluation, err = nn.Compile(loss, nn.Config{Device: cfg.Device, DType: cfg.DType, Threads: cfg.Threads, Inference: true, Share: m.program, Outputs: gorgonia.Nodes{m.logits}})
	if err != nil {
		m.program.Close()
		return nil, err
	}
	return m, nil
}

func (m *model) close() {
	m.evaluation.Close()
	m.program.Close()
}

// initialise begins with the model of --init-from, and says what was left out.
func (s *settings) initialise(ctx context.Context, program *nn.Program) error {
	done, err := worker.ImportPart(ctx, program, s.initFrom, s.importing)
	if err != nil {
		return fmt.Errorf("--init-from: %w", flagged{err})
	}
	fmt.Printf("Loaded the model from %s\n", done.From)
	return worker.WriteImported(os.Stdout, done, program)
}

// join joins the job. Being told to end (SIGTERM) ends the wait for it, so that nobody waits for a
// worker that starts as the job ends.
func join(ctx context.Context, leave <-chan struct{}, store string, opts ...kvstore.Option) (kvstore.Store, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-leave:
			cancel(worker.ErrStopped)
		case <-ctx.Done():
		}
	}()
	s, err := kvstore.Create(ctx, store, opts...)
	if err != nil && errors.Is(context.Cause(ctx), worker.ErrStopped) {
		return nil, worker.ErrStopped
	}
	return s, err
}

// leave closes the store of a worker that ends with an error, or with none, and returns what the
// program ends with.
func leave(store kvstore.Store, err error) error {
	if errors.Is(err, worker.ErrRemoved) || errors.Is(err, worker.ErrStopped) {
		// The others go on, or all stop: that is no failure.
		return errors.Join(err, store.Close())
	}
	return kvstore.Leave(store, err)
}
