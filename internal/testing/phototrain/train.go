// Package phototrain trains on images that package data opens, for tests of what must be the same
// wherever they lie and in whatever format.
//
// Train trains a small network with random crops and mirrored images, and gives a hash of all that
// it has learned: two runs that read other pixels, other labels or another order have other hashes.
// Count trains the model of package countmodel, whose parameters count how often steps that were
// acknowledged used each example, and compares each image that it reads with what it must be.
package phototrain

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/data/transform"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/sampler"
	"github.com/paragon-train/paragon/worker"
)

// A Run says what is read and trained.
type Run struct {
	// URL is where the images lie, and Open how they are opened; its Transforms are those of
	// the training.
	URL  string
	Open data.OpenOptions
	// Size is the side of the images that are trained on, Classes how many there are, Batch the
	// local batch, and Epochs how often all are used.
	Size, Classes, Batch, Epochs int
	// Readers is how many goroutines read; 0: data's default.
	Readers int
	// Window, if it is not 0, mixes so many blocks of the data at a time, such as shards, where
	// it has blocks; 0: all images of an epoch are mixed.
	Window int
	// Store is the worker's.
	Store kvstore.Store
	// Checkpoint, Stop, Leave and Observers are Fit's.
	Checkpoint worker.CheckpointConfig
	Stop       <-chan struct{}
	Leave      <-chan struct{}
	Observers  []worker.Observer
	// Before, if set, is called before each step of Count: to take time.
	Before func(ctx context.Context) error
}

// ErrLate is of a worker whose job ended, or was stopped, before it had joined: it has trained
// nothing.
var ErrLate = errors.New("phototrain: the job ended before this worker had joined")

// seed is that of the network, the order and the draws.
const seed = 11

// A Result is what Train says of a run.
type Result struct {
	// Hash is of all parameters and statistics.
	Hash string
	// Loss is the mean loss of the last epoch.
	Loss float64
	// Images is how many images a second were trained on, and Waits the share of that time in
	// which the step waited for images.
	Images, Waits float64
}

// Train trains a small network.
func Train(ctx context.Context, r Run) (result Result, err error) {
	r.Open.Transforms = []transform.Transform{transform.RandomResizedCrop(r.Size), transform.Flip()}
	images, err := data.OpenImages(ctx, r.URL, r.Open)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, images.Close()) }()
	program, err := network(images.Shape(), r.Classes, r.Batch)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	feed, err := worker.NewImageFeed(worker.ImageFeedConfig{
		Programs: []*nn.Program{program}, Dataset: images, Workers: r.Store.NumWorkers(), Rank: r.Store.Rank(), Seed: seed, Order: r.order(images), Readers: r.Readers,
		Augment: data.Augment{Mean: []float32{0.5, 0.5, 0.5}, Std: []float32{0.25, 0.25, 0.25}},
	})
	if err != nil {
		return Result{}, err
	}
	trainer, err := worker.NewTrainer(ctx, worker.Config{
		Store: r.Store, Programs: []*nn.Program{program}, Optimizer: optim.Config{Name: "sgd", LearningRate: 0.05, Momentum: 0.9},
	})
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, trainer.Close()) }()
	epochs, err := worker.Fit(ctx, worker.FitConfig{
		Trainer: trainer, Feed: feed, Epochs: r.Epochs, Checkpoint: r.Checkpoint, Stop: r.Stop, Leave: r.Leave, Observers: r.Observers,
	})
	if err == nil && len(epochs) == 0 {
		err = ErrLate
	}
	if err != nil {
		return Result{}, err
	}
	used, total, waited := 0, time.Duration(0), time.Duration(0)
	for _, e := range epochs {
		used, total, waited = used+e.Examples, total+e.Train, waited+e.Times.Data
		result.Loss = e.Loss
	}
	result.Images, result.Waits = float64(used)/total.Seconds(), waited.Seconds()/total.Seconds()
	result.Hash = Hash(program)
	return result, nil
}

// order is the order of the images of an epoch.
func (r *Run) order(images *data.Images) sampler.Order {
	if blocks := images.Blocks(); r.Window > 0 && len(blocks) > 0 {
		return sampler.Blocks(blocks, r.Window)
	}
	return sampler.Permutation
}

// network is a small one with batch normalisations.
func network(shape data.Shape, classes, batch int) (*nn.Program, error) {
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: seed})
	x := nn.Input(g, "images", batch, shape.Channels, shape.Height, shape.Width)
	for i, filters := range []int{8, 16} {
		name := fmt.Sprint("conv", i)
		x = nn.Conv2D(x, name, nn.Conv2DConfig{Filters: filters, Kernel: nn.Square(3), Stride: nn.Square(2), Pad: nn.Square(1)})
		x = nn.ReLU(nn.BatchNorm2D(x, name+".bn", nn.BatchNormConfig{}))
	}
	logits := nn.Linear(nn.GlobalAvgPool2D(x), "fc", nn.LinearConfig{Out: classes})
	return nn.Compile(nn.SoftmaxCrossEntropy(logits, nn.Labels(g, "labels", batch)), nn.Config{Threads: 1})
}

// Hash is of a program's parameters and statistics, in their order.
func Hash(program *nn.Program) string {
	hash := sha256.New()
	for _, p := range program.Params() {
		_ = binary.Write(hash, binary.LittleEndian, p.Value)
	}
	for _, s := range program.State() {
		_ = binary.Write(hash, binary.LittleEndian, s.Value)
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}
