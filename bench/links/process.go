package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/bench/internal/processes"
	"github.com/paragon-train/paragon/internal/cluster"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// process is one process of a job.
func process() error {
	return processes.Main(slog.LevelWarn, nil, func(ctx context.Context, cfg cluster.Config) error {
		var s settings
		if err := json.Unmarshal([]byte(os.Getenv(settingsEnv)), &s); err != nil {
			return fmt.Errorf("%s: %w", settingsEnv, err)
		}
		return train(ctx, cfg, &s)
	})
}

// train is a worker.
func train(ctx context.Context, cfg cluster.Config, s *settings) (err error) {
	kv, err := kvstore.Create(cluster.WithConfig(ctx, cfg), "dist_sync", kvstore.WithLogger(cfg.Logger))
	if err != nil {
		return err
	}
	defer func() { err = kvstore.Leave(kv, err) }()
	program, err := compile(s.Batch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	// The rate is small: some compressions say much more than the gradient at first, and this measures no accuracy.
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: kv, Programs: []*nn.Program{program}, Optimizer: optim.Config{Name: "sgd", LearningRate: 1e-5}, Logger: cfg.Logger})
	if err != nil {
		return err
	}
	defer trainer.Close()
	steps := func(n int) error {
		for range n {
			if err := trainer.Step(ctx, []int{s.Batch}); err != nil {
				return err
			}
		}
		return errors.Join(trainer.Flush(ctx), kv.Barrier(ctx))
	}
	out := json.NewEncoder(os.Stdout)
	for range s.Count {
		for way, c := range s.Ways {
			if err := kv.SetCompression(ctx, c); err != nil {
				return err
			}
			if err := steps(1); err != nil { // memory is there afterwards
				return err
			}
			begin, up, down := time.Now(), counted("tx"), counted("rx")
			if err := steps(s.Steps); err != nil {
				return err
			}
			t := turn{Way: way, Took: time.Since(begin), Up: counted("tx") - up, Down: counted("rx") - down}
			if kv.Rank() != 0 {
				continue
			}
			if err := out.Encode(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// counted is how many bytes the link's device has sent (tx) or received (rx).
func counted(direction string) uint64 {
	text, err := os.ReadFile(filepath.Join("/sys/class/net", os.Getenv(deviceEnv), "statistics", direction+"_bytes"))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n
}

// compile makes a ResNet18 with inputs that stay as they are: all images are of class 0.
func compile(batch int) (*nn.Program, error) {
	g := gorgonia.NewGraph()
	images, labels := nn.Input(g, "images", batch, 3, 32, 32), nn.Labels(g, "labels", batch)
	program, err := nn.Compile(nn.SoftmaxCrossEntropy(nn.ResNet18(images, nn.ResNetConfig{Classes: 10}), labels), nn.Config{Threads: 1})
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(1, 2))
	values, err := program.Input("images")
	if err != nil {
		return nil, errors.Join(err, program.Close())
	}
	for i := range values {
		values[i] = float32(random.NormFloat64())
	}
	return program, nil
}
