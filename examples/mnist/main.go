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
	"net/http"
	"os"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

func main() {
	dir := flag.String("data", "", "folder of MNIST's idx files, .gz or not")
	download := flag.Bool("download", false, "fetch MNIST into --data first")
	batch := flag.Int("batch", 64, "images of a step")
	epochs := flag.Int("epochs", 3, "passes over the data")
	flag.Parse()
	if err := train(context.Background(), *dir, *download, *batch, *epochs); err != nil {
		fmt.Fprintln(os.Stderr, "mnist:", err)
		os.Exit(1)
	}
}

func train(ctx context.Context, dir string, download bool, batch, epochs int) (err error) {
	if dir == "" {
		return errors.New("--data is empty, want the folder of MNIST's four files (with --download, the folder to fetch them into)")
	}
	if download {
		if err := data.FetchMNIST(ctx, http.DefaultClient, dir); err != nil {
			return err
		}
	}
	trainSet, testSet, err := data.LoadMNIST(dir)
	if err != nil {
		return err
	}

	store, err := kvstore.Create(ctx, "dist_sync")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()

	g := gorgonia.NewGraph()
	images, labels := nn.Input(g, "images", batch, 1, 28, 28), nn.Labels(g, "labels", batch)
	logits := nn.LeNet(images, nn.LeNetConfig{Classes: 10})
	loss := nn.SoftmaxCrossEntropy(logits, labels)
	threads := worker.DefaultThreads(os.Getenv, 1)
	program, err := nn.Compile(loss, nn.Config{Threads: threads})
	if err != nil {
		return err
	}
	evaluation, err := nn.Compile(loss, nn.Config{Threads: threads, Inference: true, Share: program, Outputs: gorgonia.Nodes{logits}})
	if err != nil {
		return err
	}

	programs := []*nn.Program{program}
	normalise := data.Augment{Mean: data.MNISTMean, Std: data.MNISTStd}
	feed, err := worker.NewImageFeed(worker.ImageFeedConfig{
		Programs: programs, Dataset: trainSet, Workers: store.NumWorkers(), Rank: store.Rank(), Seed: 1, Augment: normalise,
	})
	if err != nil {
		return err
	}
	defer feed.Close()
	trainer, err := worker.NewTrainer(ctx, worker.Config{
		Store: store, Programs: programs, Optimizer: optim.Config{Name: "sgd", LearningRate: 0.05, Momentum: 0.9},
	})
	if err != nil {
		return err
	}
	defer trainer.Close()
	report, err := worker.Fit(ctx, worker.FitConfig{
		Trainer: trainer, Feed: feed, Epochs: epochs,
		Evaluator: &worker.ImageEvaluator{Program: evaluation, Logits: logits, Dataset: testSet, Augment: normalise},
		Observers: []worker.Observer{worker.NewProgress(os.Stdout)},
	})
	if err != nil {
		return err
	}
	fmt.Println()
	return worker.WriteReport(os.Stdout, report)
}
