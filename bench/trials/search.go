package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
	"github.com/paragon-train/paragon/tune/show"
)

// studyName is that of all searches: a worker checks it.
const studyName = "trials"

// search runs one search, whose log is in dir afterwards.
func (c *config) search(ctx context.Context, w way, dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	hosts, err := hostFile(dir)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if w.tune {
		return c.launchTune(ctx, w, dir, hosts, self)
	}
	out, err := os.Create(filepath.Join(dir, "search.log"))
	if err != nil {
		return err
	}
	defer out.Close()
	var shown io.Writer = out
	if c.verbose {
		shown = io.MultiWriter(out, os.Stderr)
	}
	logger := slog.New(slog.NewTextHandler(shown, nil))
	jobs := &tune.Jobs{HostFile: hosts, Address: searcher, SSH: self + " ssh", Launch: c.launch, Command: []string{self, "worker"},
		LaunchFlags: []string{"--env", "GOMAXPROCS=1"}, Logger: logger}
	goodput := &schedule.Goodput{Interval: 5 * time.Second, ReportsPerDecision: 10}
	if w.halves {
		goodput.MinReplicas, goodput.MaxReplicas = 2, 2
	}
	cfg := tune.Config{
		Name: studyName, Space: tune.Space{tune.Grid("epochs", w.epochs[0], w.epochs[1]), tune.Grid("copy", 1)}, Metric: "loss", Mode: tune.Min, Parallel: 2, Dir: dir,
		Runner: jobs, Scheduler: goodput, Observers: []tune.Observer{show.NewLines(shown)}, Logger: logger,
	}
	if w.epochs[0] == w.epochs[1] { // values of a grid differ
		cfg.Space = tune.Space{tune.Grid("epochs", w.epochs[0]), tune.Grid("copy", 1, 2)}
	}
	r := &remover{jobs: jobs, after: w.epochs[0] / 2}
	if w.remove {
		cfg.Observers = append(cfg.Observers, r)
	}
	result, err := tune.Run(ctx, nil, cfg)
	r.removing.Wait()
	if err := errors.Join(err, r.err); err != nil {
		return err
	}
	for _, t := range result.Trials() {
		if t.State != tune.Completed {
			return fmt.Errorf("trial %d is %s: %s", t.Number, t.State, t.Error)
		}
	}
	return nil
}

// A remover takes the second host away when the first trial has reported so many epochs.
type remover struct {
	jobs     *tune.Jobs
	after    int
	once     sync.Once
	removing sync.WaitGroup
	err      error
}

func (r *remover) Observe(_ tune.View, e tune.Event) {
	if e.Kind == tune.EventReport && e.Trial == 0 && e.Step >= r.after {
		r.once.Do(func() { r.removing.Go(func() { r.err = r.jobs.Remove(secondHost) }) })
	}
}

// launchTune runs the search as launch tune does, over a command.
func (c *config) launchTune(ctx context.Context, w way, dir, hosts, self string) error {
	text := fmt.Sprintf(`name: %s
metric: loss
mode: min
command: [%q, command, "--epochs={epochs}"]
space: {epochs: {grid: [%d, %d]}}
scheduler: {goodput: {interval: 5s, reports_per_decision: 10}}
parallel: 2
hosts: %s
address: %s
ssh: %s ssh
launch_flags: [--env, GOMAXPROCS=1]
dir: %s
`, studyName, self, w.epochs[0], w.epochs[1], hosts, searcher, self, dir)
	file := filepath.Join(dir, "in.yaml")
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(dir, "search.log"))
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, c.launch, "tune", file)
	cmd.Stdout, cmd.Stderr = out, out
	if c.verbose {
		both := io.MultiWriter(out, os.Stderr)
		cmd.Stdout, cmd.Stderr = both, both
	}
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 30*time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%v: %w; its output is in %s", cmd.Args, err, out.Name())
	}
	return nil
}
