package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/scheduler"
	"github.com/paragon-train/paragon/internal/member/servernode"
	"github.com/paragon-train/paragon/internal/store/shardserver"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/testing/countmodel"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// roleEnv marks a process of a job. Its value is a settings, JSON.
const roleEnv = "PARAGON_BENCH_FAULTS"

// helperEnv tells a helper its role, control or stranger; roleEnv tells it what to do. addressEnv
// is the scheduler's address.
const (
	helperEnv  = "PARAGON_BENCH_FAULTS_HELPER"
	addressEnv = "PARAGON_BENCH_FAULTS_SCHEDULER"
)

// help is a process that is no part of a job.
func help() error {
	if os.Getenv(helperEnv) == "stranger" {
		var d disturbance
		if err := json.Unmarshal([]byte(os.Getenv(roleEnv)), &d); err != nil {
			return err
		}
		disturb(d)
	}
	secret, err := hex.DecodeString(os.Getenv("PARAGON_SECRET"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer, err := cluster.Control(ctx, os.Getenv(addressEnv), transport.Config{Secret: secret}, []byte(os.Getenv(roleEnv)))
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(answer)
	return err
}

// settings are what workers train.
type settings struct {
	Examples, Batch, Epochs int

	// Step is the least time of a step.
	Step time.Duration
}

// An event is what a process tells: a line of JSON.
type event struct {
	// Address is the scheduler's, which tells it at its start.
	Address string `json:",omitempty"`

	// Step of the epoch is done by this worker; it counts from 1.
	Step  int `json:",omitempty"`
	Epoch int `json:",omitempty"`

	End *ending `json:",omitempty"`
}

// An ending is what a worker's parameters say when all is done.
type ending struct {
	Rank, Workers int

	// Lost and Doubled count uses of examples that are missing, and that are too many.
	Lost, Doubled int

	// Bits is a hash of all values.
	Bits string
}

// jumpWall makes the wall clock of this process jump; nil: this program was built without that.
var jumpWall func(d time.Duration)

// jumps are those of a process that gets SIGUSR1, each time the next one.
var jumps = []time.Duration{3 * time.Hour, -6 * time.Hour}

// process is one process of a job. It ends with its standard input.
func process() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if jumpWall != nil {
		jumpWhenTold()
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var s settings
	if err := json.Unmarshal([]byte(os.Getenv(roleEnv)), &s); err != nil {
		return err
	}
	cfg, err := cluster.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	out := json.NewEncoder(os.Stdout)
	switch cfg.Role {
	case cluster.Scheduler:
		return scheduler.Run(ctx, scheduler.Config{Config: cfg, Ready: func(addr string) { _ = out.Encode(event{Address: addr}) }})
	case cluster.Server:
		return servernode.Run(ctx, cfg, shardserver.Config{})
	}
	slog.SetDefault(cfg.Logger)
	return train(ctx, cfg, &s, out)
}

// jumpWhenTold lets the clock jump with each SIGUSR1.
func jumpWhenTold() {
	told := make(chan os.Signal, len(jumps))
	signal.Notify(told, syscall.SIGUSR1)
	go func() {
		for _, d := range jumps {
			<-told
			jumpWall(d)
			slog.Info("the wall clock has jumped", "by", d, "to", time.Now())
		}
	}()
}

// train is a worker.
func train(ctx context.Context, cfg cluster.Config, s *settings, out *json.Encoder) (err error) {
	kv, err := joining.Join(ctx, cfg, "dist_sync", kvstore.WithLogger(cfg.Logger), kvstore.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	defer func() { err = kvstore.Leave(kv, err) }()
	program, err := countmodel.Compile(s.Examples)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	trainer, err := worker.NewTrainer(ctx, worker.Config{Store: kv, Programs: []*nn.Program{program}, Optimizer: countmodel.Optimizer, Logger: cfg.Logger})
	if err != nil {
		return err
	}
	defer trainer.Close()
	feed, err := countmodel.NewFeed(program, s.Batch, kv.NumWorkers(), kv.Rank(), 7)
	if err != nil {
		return err
	}
	feed.Before = func(ctx context.Context) error {
		select {
		case <-time.After(s.Step):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	term, forget := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer forget()
	_, err = worker.Fit(ctx, worker.FitConfig{Trainer: trainer, Feed: feed, Epochs: s.Epochs, Leave: term.Done(), Observers: []worker.Observer{progressWriter{out}}})
	if removed(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return out.Encode(event{End: ended(program, s.Epochs, kv.Rank(), kv.NumWorkers())})
}

// removed says that a worker was asked to leave.
func removed(err error) bool { return errors.Is(err, cluster.ErrRemoved) }

// ended reads the parameters. A contribution that reached some of them alone is one of a step that
// was not acknowledged, whose examples were handed out again: what all parameters have counts.
func ended(program *nn.Program, epochs, rank, workers int) *ending {
	e := &ending{Rank: rank, Workers: workers}
	for _, n := range countmodel.Counts(program) {
		e.Lost += max(0, epochs-n)
		e.Doubled += max(0, n-epochs)
	}
	hash := sha256.New()
	for _, p := range program.Params() {
		for _, v := range p.Value {
			_ = binary.Write(hash, binary.LittleEndian, v)
		}
	}
	e.Bits = hex.EncodeToString(hash.Sum(nil)[:8])
	return e
}

// A progressWriter writes an event for every step.
type progressWriter struct{ out *json.Encoder }

func (progressWriter) Begin(worker.Run) {}
func (t progressWriter) Step(s worker.StepInfo) {
	if err := t.out.Encode(event{Step: s.Step + 1, Epoch: s.Epoch}); err != nil {
		fmt.Fprintln(os.Stderr, "tell of a step:", err)
	}
}
func (progressWriter) Epoch(worker.EpochInfo) {}
func (progressWriter) End()                   {}
