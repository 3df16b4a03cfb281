package trialjob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/tune/internal/elastic"
	"github.com/paragon-train/paragon/tune/internal/nodes"
	"github.com/paragon-train/paragon/tune/internal/remote"
)

// Run runs an attempt until it has ended, and leaves no process of it behind. Its error is
// ErrObeyed, a *Failed, or why nothing could be started.
func (r *Runner) Run(ctx context.Context, s Settings, a Attempt) (err error) {
	t := &trial{runner: r, settings: &s, Attempt: a}
	if a.elastic() {
		leave, err := t.enter(ctx)
		defer leave()
		if err != nil {
			return err
		}
	}
	if err := t.makeFolder(); err != nil {
		return err
	}
	if err := t.openState(); err != nil {
		return err
	}
	server, err := remote.Listen(s.Address, s.MaxCopied)
	if err != nil {
		return err
	}
	defer func() {
		if closed := server.Close(); closed != nil {
			err = errors.Join(err, closed)
		}
	}()
	if err := t.open(server); err != nil {
		return err
	}
	defer t.session.Close()
	return t.run(ctx)
}

// enter waits for the replicas with which an elastic attempt begins. leave gives back all that it
// has by then; its processes have ended.
func (t *trial) enter(ctx context.Context) (leave func(), err error) {
	env := elastic.Env{Alloc: t.runner.Nodes.Alloc, Suspect: t.runner.Nodes.Suspect, Logger: t.settings.Logger}
	if t.settings.Place == ThisMachine {
		env.Local = nodes.LocalName
	}
	t.job = t.runner.Elastic.Enter(env, t.Trial, t.Number, Unit(t.Resources))
	t.begins, err = t.job.Begin(ctx, t.Least)
	return func() { t.runner.Elastic.Leave(t.job) }, err
}

// makeFolder makes the attempt's folder. It may be there from an attempt that this program did not
// survive: then the result in it goes, so that launch's is the only one.
func (t *trial) makeFolder() error {
	t.folder = filepath.Join(t.Folder, fmt.Sprintf("attempt-%d", t.Number))
	if err := os.MkdirAll(t.folder, 0o777); err != nil {
		return fmt.Errorf("tune: trial %d: %w", t.Trial, err)
	}
	if err := os.Remove(filepath.Join(t.folder, resultFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("tune: trial %d: %w", t.Trial, err)
	}
	return nil
}

// open lets the trial's processes connect.
func (t *trial) open(server *remote.Server) error {
	task, err := t.task()
	if err != nil {
		return err
	}
	if t.elastic() {
		t.session = server.OpenElastic(task, t.job, t)
	} else {
		t.session = server.Open(task, t.share, t)
	}
	return nil
}

// run starts the processes and waits for their end.
func (t *trial) run(ctx context.Context) error {
	command, err := t.command()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.stop = func() { cancel(t.told()) }
	t.out = newOutput(t.outputConfig())
	started, stopHelpers := t.startHelpers(ctx, cancel)
	patience := t.stopAfter()
	if !t.settings.NoServers {
		// launch ends its own processes first, which takes a part of the time.
		patience += patience / 2
	}
	spec := process.Spec{Name: fmt.Sprintf("trial %d", t.Trial), Command: command, Env: append(t.session.Environment(), t.environment()...)}
	// The files of a trial are for people, so they are not logged as JSON.
	spec.Env = append(spec.Env, joblog.Variable+"="+string(joblog.Text))
	exit, err := t.execute(ctx, spec, patience, started)
	stopHelpers()
	if failed := t.out.close(); failed != nil {
		t.settings.Logger.Warn("tune: the logs of a trial are incomplete", "trial", t.Trial, "error", failed)
	}
	return t.verdict(ctx, exit, err)
}

// startHelpers starts what goes on beside the processes: the watch over their start and, for an
// elastic attempt, over its replicas. started is to be told launch's process ID.
func (t *trial) startHelpers(ctx context.Context, cancel context.CancelCauseFunc) (started func(pid int), stop func()) {
	var helpers sync.WaitGroup
	over := make(chan struct{})
	steering, steered := context.WithCancel(ctx)
	started = func(int) {}
	if t.elastic() {
		started = t.job.Launched
		helpers.Go(func() { t.job.Run(steering, t.Least) })
	}
	helpers.Go(func() { t.watch(cancel, over) })
	return started, func() {
		close(over)
		steered()
		helpers.Wait()
	}
}

// watch ends the trial when one of its nodes was removed, or its workers do not connect in time. Of
// an elastic job launch knows what it can do without.
func (t *trial) watch(cancel context.CancelCauseFunc, over chan struct{}) {
	start := time.NewTimer(t.Resources.StartTimeout)
	defer start.Stop()
	var lost <-chan struct{}
	if t.Grant != nil {
		lost = t.Grant.Lost()
	}
	for {
		select {
		case <-over:
			return
		case <-lost:
			cancel(fail(NodeLost, fmt.Errorf("node %s was removed", t.Grant.Gone())))
			return
		case <-start.C:
			if !t.settings.Connects {
				continue
			}
			if n := t.session.Joined(); n < t.workers() {
				cancel(fail(NodeLost, fmt.Errorf("after %v only %d of %d workers have called tune.Run", t.Resources.StartTimeout, n, t.workers())))
				return
			}
		}
	}
}
