package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/internal/testing/phototrain"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/worker"
)

// settingsEnv marks a worker of a job. Its value is the path of a file with settings, JSON.
const settingsEnv = "PARAGON_OWNDATA_SETTINGS"

// settings are what workers do.
type settings struct {
	URL, Cache    string
	Size, Classes int
	Epochs        int
	// Dir is the folder of the checkpoints and of the files to which workers write their
	// events.
	Dir string
	// SaveSteps is the number of steps between checkpoints.
	SaveSteps int
	// Prints are hashes of all images, by which a counting job finds out which images it used;
	// nil: the job trains.
	Prints []uint64
	Kills  []kill
	// Pace is how long a counting job waits before each step.
	Pace time.Duration
	// Window is the number of blocks whose images are mixed with each other; 0: the order is a
	// permutation of all images.
	Window int
	// Slow is the number of steps after which they take 30 times as long, so that the job can
	// be stopped before its end; 0: they never do.
	Slow int
}

// A kill is of the worker with that rank, by itself, once, when so many steps of the job are done.
type kill struct{ Rank, Done int }

// An event is a line of a worker's file.
type event struct {
	Rank, Workers, Done int
	Killed              bool    `json:",omitempty"`
	End                 *ending `json:",omitempty"`
}

// An ending is what a worker that has trained to the end says.
type ending struct {
	Hash                 string
	Lost, Doubled, Total int
}

func (s *settings) events() string      { return filepath.Join(s.Dir, "events") }
func (s *settings) checkpoints() string { return filepath.Join(s.Dir, "checkpoints") }

// work is a worker of a job.
func work() error {
	text, err := os.ReadFile(os.Getenv(settingsEnv))
	if err != nil {
		return err
	}
	var s settings
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	switch err := s.work(); {
	case errors.Is(err, worker.ErrRemoved), errors.Is(err, worker.ErrCheckpointed):
		return nil
	case errors.Is(err, worker.ErrStopped):
		os.Exit(128 + int(syscall.SIGTERM))
		return nil
	default:
		return err
	}
}

// work is a worker of a job, which trains on the images or counts them. What it tells goes into a
// file of its own.
func (s *settings) work() (err error) {
	ctx := context.Background()
	term, forget := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer forget()
	f, err := os.OpenFile(filepath.Join(s.events(), fmt.Sprintf("worker-%d.jsonl", os.Getpid())), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	kv, err := kvstore.Create(ctx, "dist_sync", kvstore.WithTimeout(2*time.Minute))
	if err != nil {
		return err
	}
	defer func() {
		if errors.Is(err, worker.ErrRemoved) || errors.Is(err, worker.ErrStopped) {
			err = errors.Join(err, kv.Close())
			return
		}
		err = kvstore.Leave(kv, err)
	}()
	o := &observer{settings: s, kv: kv, out: json.NewEncoder(f)}
	resume := os.Getenv("PARAGON_RESUME") != ""
	r := phototrain.Run{
		URL: s.URL, Open: data.OpenOptions{CacheDir: s.Cache}, Size: s.Size, Classes: s.Classes, Batch: batch, Epochs: s.Epochs, Window: s.Window, Store: kv, Leave: term.Done(), Observers: []worker.Observer{o},
		Checkpoint: worker.CheckpointConfig{Dir: s.checkpoints(), EverySteps: s.SaveSteps, Resume: resume, Fallback: resume},
	}
	if s.Prints != nil {
		r.Before = o.pace
	}
	end, err := s.train(ctx, r)
	if errors.Is(err, phototrain.ErrLate) {
		return nil
	}
	if err != nil {
		return err
	}
	return o.out.Encode(event{Rank: kv.Rank(), Workers: kv.NumWorkers(), End: end})
}

// train trains a network, or counts how often each image was used if the prints of the images are
// known.
func (s *settings) train(ctx context.Context, r phototrain.Run) (*ending, error) {
	if s.Prints == nil {
		result, err := phototrain.Train(ctx, r)
		return &ending{Hash: result.Hash}, err
	}
	counts, err := phototrain.Count(ctx, r, s.Prints)
	end := &ending{}
	for _, n := range counts {
		end.Lost, end.Doubled, end.Total = end.Lost+max(0, s.Epochs-n), end.Doubled+max(0, n-s.Epochs), end.Total+n
	}
	return end, err
}

// An observer tells of each step, and kills its process where that is asked for.
type observer struct {
	*settings
	kv  kvstore.Store
	out *json.Encoder

	// done counts the steps of the job.
	done int
}

// pace lets the steps of a counting job take their time, which is longer from the step Slow on.
func (o *observer) pace(ctx context.Context) error {
	pace := o.Pace
	if o.Slow > 0 && o.done >= o.Slow {
		pace *= 30
	}
	select {
	case <-time.After(pace):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (o *observer) Begin(worker.Run) {}

// Step tells of the step. A kill comes once in a job, whichever worker it meets first: a file marks
// that it was.
func (o *observer) Step(s worker.StepInfo) {
	o.done = int(s.Done)
	e := event{Rank: o.kv.Rank(), Workers: o.kv.NumWorkers(), Done: o.done}
	for i, k := range o.Kills {
		if k.Rank != e.Rank || e.Done < k.Done {
			continue
		}
		mark, err := os.OpenFile(filepath.Join(o.Dir, fmt.Sprint("killed-", i)), os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			// The mark is there: this kill has come before.
			continue
		}
		mark.Close()
		e.Killed = true
		_ = o.out.Encode(e)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	_ = o.out.Encode(e)
}
func (o *observer) Epoch(worker.EpochInfo) {}
func (o *observer) End()                   {}
