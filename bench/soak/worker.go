package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/testing/countmodel"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// What workers are given: the folder in which they write events, and the number of epochs.
const (
	eventsEnv = "PARAGON_SOAK_EVENTS"
	epochsEnv = "PARAGON_SOAK_EPOCHS"
)

// What is trained.
const (
	examples, batch = 300, 5
	stepTime        = 60 * time.Millisecond
)

// An event is a line of a worker's file.
type event struct {
	At time.Time

	// Step counts within the epoch, from 1.
	Step       int     `json:",omitempty"`
	Epoch      int     `json:",omitempty"`
	Goroutines int     `json:",omitempty"`
	End        *ending `json:",omitempty"`
}

// An ending is what the parameters say when all is done.
type ending struct {
	// Lost and Doubled count uses of examples that are missing, and that are too many.
	Lost, Doubled int

	// Bits is a hash of the values, the same on all workers of a job that is well.
	Bits string
}

// work is a worker of the job. It slows its steps down, so that faults come in the middle of them.
func work() (err error) {
	ctx := context.Background()
	epochs, err := strconv.Atoi(os.Getenv(epochsEnv))
	if err != nil {
		return fmt.Errorf("%s: %w", epochsEnv, err)
	}
	f, err := os.OpenFile(filepath.Join(os.Getenv(eventsEnv), fmt.Sprintf("worker-%d.jsonl", os.Getpid())), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	out := json.NewEncoder(f)
	kv, err := kvstore.Create(ctx, "dist_sync", kvstore.WithTimeout(2*time.Minute))
	if err != nil {
		return err
	}
	defer func() { err = kvstore.Leave(kv, err) }()
	program, err := countmodel.Compile(examples)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: kv, Programs: []*nn.Program{program}, Optimizer: countmodel.Optimizer})
	if err != nil {
		return err
	}
	defer trainer.Close()
	feed, err := countmodel.NewFeed(program, batch, kv.NumWorkers(), kv.Rank(), 7)
	if err != nil {
		return err
	}
	feed.Before = func(context.Context) error {
		time.Sleep(stepTime)
		return nil
	}
	term, forget := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer forget()
	_, err = worker.Fit(ctx, worker.FitConfig{Trainer: trainer, Feed: feed, Epochs: epochs, Leave: term.Done(), Observers: []worker.Observer{&progressWriter{out: out}}})
	if errors.Is(err, worker.ErrRemoved) {
		slog.Info("removed, as asked")
		return nil
	}
	if err != nil {
		return err
	}
	return out.Encode(event{At: time.Now(), End: ended(program, epochs)})
}

// ended reads the parameters: what all of them count is acknowledged.
func ended(program *nn.Program, epochs int) *ending {
	e := &ending{}
	for _, n := range countmodel.Counts(program) {
		e.Lost += max(0, epochs-n)
		e.Doubled += max(0, n-epochs)
	}
	hash := sha256.New()
	for _, p := range program.Params() {
		_ = binary.Write(hash, binary.LittleEndian, p.Value)
	}
	e.Bits = hex.EncodeToString(hash.Sum(nil)[:8])
	return e
}

// A progressWriter writes an event after each step.
type progressWriter struct{ out *json.Encoder }

func (t *progressWriter) Begin(worker.Run) {}
func (t *progressWriter) Step(s worker.StepInfo) {
	_ = t.out.Encode(event{At: time.Now(), Step: s.Step + 1, Epoch: s.Epoch, Goroutines: runtime.NumGoroutine()})
}
func (t *progressWriter) Epoch(worker.EpochInfo) {}
func (t *progressWriter) End()                   {}
