package trialjob

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/tune/internal/elastic"
	"github.com/paragon-train/paragon/tune/internal/nodes"
	"github.com/paragon-train/paragon/tune/internal/remote"
	"github.com/paragon-train/paragon/tune/jobs"
)

// A trial is one running attempt.
type trial struct {
	runner   *Runner
	settings *Settings
	Attempt

	// folder is the attempt's.
	folder string
	// job is the attempt's if it is elastic, and begins the replicas with which it begins.
	job     *elastic.Job
	begins  jobs.NodeReplicas
	session *remote.Session
	out     *output
	state   commandState
	// obeys says that the search's newest answer asks the attempt to return.
	obeys atomic.Bool
	// stop ends the processes, since the attempt was asked to return.
	stop func()
}

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

// workers is how many there are when the attempt begins.
func (t *trial) workers() int {
	if t.elastic() {
		return t.begins.Replicas
	}
	return t.Resources.Hosts * t.Resources.Slots
}

// task is what each worker is told.
func (t *trial) task() (task remote.Task, err error) {
	task = remote.Task{Study: t.Study, Trial: t.Trial, Attempt: t.Number, Params: t.Params, Seed: t.Seed, Workers: t.workers(), Folder: t.Folder, Restore: t.Restore}
	if t.state.carried && t.Resources.Hosts > 1 {
		task.PerHost = t.Resources.Slots
	}
	if t.settings.Place != ThisMachine {
		if task.Marker, err = t.marker(); err != nil {
			return task, fmt.Errorf("tune: trial %d: %w", t.Trial, err)
		}
	}
	return task, nil
}

// share is a rank's share of the processors and GPUs of the trial. Rank i runs on host i/Slots, by
// the hosts file that launch gets. A task of a cluster has its processors and GPUs already, and no
// others.
func (t *trial) share(rank int) (cpus []int, devices []string) {
	if t.settings.Place == ClusterNodes {
		return nil, nil
	}
	r := t.Resources
	part, slot := t.Grant.Parts[rank/r.Slots], rank%r.Slots
	cpus = part.CPUs[slot*r.CPUsPerSlot : (slot+1)*r.CPUsPerSlot]
	devices = slices.Clone(part.GPUs[slot*r.GPUs : (slot+1)*r.GPUs])
	if devices == nil {
		devices = []string{}
	}
	return cpus, devices
}

// Decide implements remote.Backend.
func (t *trial) Decide(step int, metrics map[string]float64) (remote.Answer, error) {
	a, err := t.Search.Decide(step, metrics)
	if err == nil && a.Action != goOn {
		t.obeys.Store(true)
	}
	return a, err
}

// Checkpoint implements remote.Backend.
func (t *trial) Checkpoint(step int, write func(dir string) error) error {
	return t.Search.Checkpoint(step, write)
}

// Alive implements remote.Backend.
func (t *trial) Alive() { t.Search.Alive() }

// marker writes the file by which processes see whether they have this machine's files.
func (t *trial) marker() (*remote.Marker, error) {
	m := &remote.Marker{Path: filepath.Join(t.folder, markerFile), Text: rand.Text()}
	return m, os.WriteFile(m.Path, []byte(m.Text), 0o666)
}

// told is ErrObeyed once the search's newest answer asks the attempt to return, and nil before.
func (t *trial) told() error {
	if t.obeys.Load() {
		return ErrObeyed
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

// joined says whether the program has joined the trial, and reports by itself. What carries a
// command's folder joins, too, and reports nothing.
func (t *trial) joined() bool { return t.session.Joined() > 0 && !t.state.carried }

// environment are the variables of the processes besides the address of the search. Where launch
// starts the workers on hosts, or each has its own slot, launch sets the visible GPUs; a task of a
// cluster has the variable.
func (t *trial) environment() []string {
	if t.settings.Place == Hosts && !t.settings.NoServers || t.settings.Place == ClusterNodes || t.elastic() {
		return nil
	}
	return []string{gpus.Variable + "=" + gpus.Visible(t.Grant.Parts[0].GPUs)}
}

// outputConfig says what becomes of what the processes print.
func (t *trial) outputConfig() outputConfig {
	c := outputConfig{folder: t.folder, metric: t.Metric, alone: t.settings.NoServers, report: t.report}
	if t.settings.Show != nil {
		c.show = t.show
	}
	return c
}
