package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/sampler"
	"github.com/paragon-train/paragon/worker"
)

// A training loop of one's own around Trainer.Step: which of two numbers is larger? The last batch
// is short.
func ExampleTrainer() {
	ctx := context.Background()
	kv, err := kvstore.Create(ctx, "local") // "dist_sync" in a job
	if err != nil {
		fmt.Println(err)
		return
	}
	defer kv.Close()
	g := gorgonia.NewGraph()
	x, labels := nn.Input(g, "x", 4, 2), nn.Labels(g, "labels", 4)
	program, err := nn.Compile(nn.SoftmaxCrossEntropy(nn.Linear(x, "fc", nn.LinearConfig{Out: 2}), labels), nn.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer program.Close()
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: kv, Programs: []*nn.Program{program}, Optimizer: optim.Config{Name: "sgd", LearningRate: 1},
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer trainer.Close()

	in, _ := program.Input("x")
	classes, _ := program.Labels("labels")
	for range 50 {
		copy(in, []float32{1, 0, 0, 1, 3, 2, 2, 3})
		classes.Set([]int32{0, 1, 0, 1})
		if err := trainer.Step(ctx, []int{4}); err != nil { // four examples on the one device
			fmt.Println(err)
			return
		}
		copy(in, []float32{5, 4, 4, 5})
		if err := trainer.Step(ctx, []int{2}); err != nil { // only the first two count
			fmt.Println(err)
			return
		}
	}
	err = trainer.Flush(ctx) // the last values are there
	fmt.Println(trainer.Steps(), "steps, learned:", program.Loss() < 0.1, err)
	// Output: 100 steps, learned: true <nil>
}

// classifier is a small model of images as data.Synthetic draws them, its feed and its trainer.
func classifier(ctx context.Context, kv kvstore.Store) (*worker.Trainer, worker.Feed, error) {
	g := gorgonia.NewGraph()
	images, labels := nn.Input(g, "images", 32, 3, 32, 32), nn.Labels(g, "labels", 32)
	logits := nn.Linear(nn.Flatten(images), "fc", nn.LinearConfig{Out: len(data.SyntheticClasses)})
	program, err := nn.Compile(nn.SoftmaxCrossEntropy(logits, labels), nn.Config{})
	if err != nil {
		return nil, nil, err
	}
	programs := []*nn.Program{program}
	feed, err := worker.NewImageFeed(worker.ImageFeedConfig{Programs: programs, Dataset: data.Synthetic(100, 1), Workers: kv.NumWorkers(), Rank: kv.Rank(), Seed: 1})
	if err != nil {
		return nil, nil, err
	}
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: kv, Programs: programs, Optimizer: optim.Config{Name: "adam", LearningRate: 0.001},
		Logger: slog.New(slog.DiscardHandler)})
	return trainer, feed, err
}

// The loop over epochs: batches, checkpoints and an orderly stop are Fit's. The second run goes on
// from the first one's checkpoint.
func ExampleFit() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "checkpoints")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for _, epochs := range []int{2, 3} {
		kv, err := kvstore.Create(ctx, "local") // "dist_sync" in a job
		if err != nil {
			fmt.Println(err)
			return
		}
		trainer, feed, err := classifier(ctx, kv)
		if err != nil {
			fmt.Println(err)
			return
		}
		done, err := worker.Fit(ctx, worker.FitConfig{
			Trainer: trainer, Feed: feed, Epochs: epochs,
			Checkpoint: worker.CheckpointConfig{Dir: dir, Resume: true},
		})
		for _, e := range done {
			fmt.Printf("epoch %d: %d examples, %d steps in all\n", e.Epoch, e.Examples, e.Done)
		}
		if err != nil {
			fmt.Println(err)
		}
		trainer.Close()
		kv.Close()
	}
	// Output:
	// epoch 0: 100 examples, 4 steps in all
	// epoch 1: 100 examples, 8 steps in all
	// epoch 2: 100 examples, 12 steps in all
}

// Ten examples over three workers, two each in a step. One leaves after the first step; what is
// left of the epoch is divided over the other two.
func ExamplePartition() {
	p, err := worker.NewPartition(10, 2, 3, 0, sampler.InOrder())
	if err != nil {
		fmt.Println(err)
		return
	}
	for batch := range p.Batches(0, 0) {
		fmt.Print(batch)
	}
	fmt.Println(" of", p.Len(), "examples in", p.Steps(), "steps")

	err = p.Divided(0, 2, []sampler.Cut{{Parts: 3, Used: []int{2, 2, 2}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for batch := range p.Batches(0, 0) {
		fmt.Print(batch)
	}
	fmt.Println(" of", p.Len(), "examples in", p.Steps(), "steps")
	// Output:
	// [0 1][2 3] of 4 examples in 2 steps
	// [2 3] of 2 examples in 1 steps
}

// What launch tune and launch --result read: a line of metrics after each epoch. Pass the observer
// in FitConfig.Observers.
func ExampleMetricsLines() {
	lines := worker.NewMetricsLines(os.Stdout)
	lines.Begin(worker.Run{Rank: 0, Workers: 2})
	lines.Epoch(worker.EpochInfo{Epoch: 0, Loss: 0.5, Test: &worker.Scores{Loss: 0.625, Accuracy: 0.75}})
	// Output: accuracy=0.750000 loss=0.625000 train_loss=0.500000 step=1
}
