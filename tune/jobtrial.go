package tune

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/tune/internal/remote"
	"github.com/paragon-train/paragon/tune/internal/slots"
	"github.com/paragon-train/paragon/tune/jobs"
)

// A jobTrial is one running attempt.
type jobTrial struct {
	jobs      *Jobs
	attempt   Attempt
	reporter  *Reporter
	resources Resources
	grant     *slots.Grant // nil: it is elastic
	elastic   *elasticJob
	begins    jobs.NodeReplicas // of an elastic one
	folder    string            // of the attempt
	session   *remote.Session
	out       *jobOutput

	checkpoint *commandCheckpoint // nil: Jobs.Checkpoints is not set, or
	carried    bool               // the folder is on another host

	mu     sync.Mutex // guards answer
	answer error      // the answer to the newest report, if it asks the trial to return
	stop   func()     // ends the processes
}

// Run implements Runner.
func (j *Jobs) Run(ctx context.Context, a Attempt, r *Reporter) (err error) {
	t := &jobTrial{jobs: j, attempt: a, reporter: r}
	if a.elastic && j.Cluster != nil {
		return errors.New("tune: Jobs.Cluster is set, and the study's scheduler makes trials elastic: want another scheduler, or HostFile")
	}
	if a.elastic {
		t.resources = j.elasticResources(a.Resources)
		t.elastic = j.enter(a)
		defer j.leave(t.elastic)
		if t.begins, err = t.elastic.begin(ctx, max(a.least, 1)); err != nil {
			return err
		}
	} else {
		place, ok := a.Place.(jobPlace)
		if !ok {
			return errors.New("tune: Jobs.Run: the attempt's Place was not acquired from these Jobs")
		}
		t.resources, t.grant = j.resources(a.Resources), place.Grant
	}
	root, err := r.Folder()
	if err != nil {
		return err
	}
	t.folder = filepath.Join(root, fmt.Sprintf("attempt-%d", a.Number))
	if err := os.MkdirAll(t.folder, 0o777); err != nil {
		return fmt.Errorf("tune: trial %d: %w", a.Trial, err)
	}
	// One that is there is of an attempt that this program did not survive. launch removes it,
	// unless it ends before.
	if err := os.Remove(filepath.Join(t.folder, resultFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("tune: trial %d: %w", a.Trial, err)
	}
	if err := t.openCheckpoint(); err != nil {
		return err
	}
	server, err := remote.Listen(j.Address, cmp.Or(j.MaxCopied, defaultMaxCopied))
	if err != nil {
		return err
	}
	defer func() {
		if closed := server.Close(); closed != nil {
			err = errors.Join(err, closed)
		}
	}()
	task, err := t.task(root)
	if err != nil {
		return err
	}
	if t.elastic != nil {
		t.session = server.OpenElastic(task, t.elastic, t)
	} else {
		t.session = server.Open(task, t.share, t)
	}
	defer t.session.Close()
	return t.run(ctx)
}

// workers is how many there are when the attempt begins.
func (t *jobTrial) workers() int {
	if t.elastic != nil {
		return t.begins.Replicas
	}
	return t.resources.Hosts * t.resources.Slots
}

func (t *jobTrial) task(root string) (remote.Task, error) {
	params, err := json.Marshal(t.attempt.Params)
	if err != nil {
		return remote.Task{}, fmt.Errorf("tune: trial %d: %w", t.attempt.Trial, err)
	}
	task := remote.Task{Study: cmp.Or(t.attempt.program, t.attempt.Study), Trial: t.attempt.Trial, Attempt: t.attempt.Number, Params: params, Seed: t.attempt.Seed, Workers: t.workers()}
	task.Folder = root
	if t.carried && t.resources.Hosts > 1 {
		task.PerHost = t.resources.Slots
	}
	if t.jobs.HostFile != "" || t.jobs.Cluster != nil {
		if task.Marker, err = t.marker(); err != nil {
			return remote.Task{}, fmt.Errorf("tune: trial %d: %w", t.attempt.Trial, err)
		}
	}
	if dir, step, ok := t.reporter.Restore(); ok {
		task.Restore = &remote.Restore{Dir: dir, Step: step, Donor: t.reporter.Donor()}
	}
	return task, nil
}

// share is a rank's share of the processors and GPUs of the trial. Rank i runs on host i/Slots, by
// the hosts file that launch gets.
func (t *jobTrial) share(rank int) (cpus []int, devices []string) {
	if t.jobs.Cluster != nil {
		return nil, nil // the step has its processors and GPUs, and no others
	}
	part, slot := t.grant.Parts[rank/t.resources.Slots], rank%t.resources.Slots
	cpus = part.CPUs[slot*t.resources.CPUsPerSlot : (slot+1)*t.resources.CPUsPerSlot]
	devices = slices.Clone(part.GPUs[slot*t.resources.GPUs : (slot+1)*t.resources.GPUs])
	if devices == nil {
		devices = []string{}
	}
	return cpus, devices
}

// Decide implements remote.Backend.
func (t *jobTrial) Decide(step int, metrics map[string]float64) (remote.Answer, error) {
	err := t.reporter.Report(step, metrics)
	switch {
	case err == nil:
		return remote.Answer{Action: string(Continue)}, nil
	case errors.Is(err, ErrStop) || errors.Is(err, ErrPause):
		t.mu.Lock()
		t.answer = err
		t.mu.Unlock()
		action := Stop
		if errors.Is(err, ErrPause) {
			action = Pause
		}
		return remote.Answer{Action: string(action), Rule: err.Error()}, nil
	}
	return remote.Answer{}, err
}

// Checkpoint implements remote.Backend.
func (t *jobTrial) Checkpoint(step int, write func(dir string) error) error {
	return t.reporter.Checkpoint(step, write)
}

// Alive implements remote.Backend.
func (t *jobTrial) Alive() { t.reporter.alive() }

// marker writes the file by which processes see whether they have this machine's files.
func (t *jobTrial) marker() (*remote.Marker, error) {
	m := &remote.Marker{Path: filepath.Join(t.folder, markerFile), Text: rand.Text()}
	return m, os.WriteFile(m.Path, []byte(m.Text), 0o666)
}

// told is the newest answer to the trial, if it asks the trial to return.
func (t *jobTrial) told() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answer
}

// run starts the processes and waits for their end.
func (t *jobTrial) run(ctx context.Context) error {
	command, err := t.command()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.stop = func() { cancel(t.told()) }
	t.out = newJobOutput(t)
	var watch sync.WaitGroup
	over := make(chan struct{})
	steering, steered := context.WithCancel(ctx)
	defer steered()
	started := func(pid int) {}
	if e := t.elastic; e != nil {
		started = func(pid int) { e.launcher <- pid }
		watch.Go(func() { e.steer(steering, max(t.attempt.least, 1)) })
		watch.Go(func() { e.follow(steering) })
	}
	watch.Go(func() { t.watch(cancel, over) })
	patience := t.attempt.stopAfter()
	if !t.jobs.NoServers {
		patience += patience / 2 // launch ends its processes in order
	}
	spec := process.Spec{Name: fmt.Sprintf("trial %d", t.attempt.Trial), Command: command, Env: append(t.session.Environment(), t.environment()...)}
	spec.Env = append(spec.Env, joblog.Variable+"="+string(joblog.Text)) // the files of a trial are for people
	exit, err := t.execute(ctx, spec, patience, started)
	close(over)
	steered()
	watch.Wait()
	t.out.close()
	return t.verdict(ctx, exit, err)
}

// execute runs the trial's process: on this machine, where launch reaches hosts by itself, in a
// step on its node, or without launch on its host.
func (t *jobTrial) execute(ctx context.Context, spec process.Spec, patience time.Duration, started func(pid int)) (process.Exit, error) {
	switch {
	case t.jobs.Cluster != nil:
		return t.executeStep(ctx, spec, patience, started)
	case t.jobs.HostFile != "" && t.jobs.NoServers:
		return t.executeOnHost(ctx, spec, patience, started)
	}
	var cpus []int
	if t.jobs.HostFile == "" && t.grant != nil {
		cpus = t.grant.Parts[0].CPUs
	}
	client, closeAgent, err := localAgent(cpus, t.jobs.logger())
	if err != nil {
		return process.Exit{}, fmt.Errorf("tune: start %s: %w", spec.Name, err)
	}
	defer closeAgent()
	return execute(ctx, client, spec, t.out.out, patience, started)
}

// executeStep runs the trial's process in a step. A node that is lost is no fault of the trial.
func (t *jobTrial) executeStep(ctx context.Context, spec process.Spec, patience time.Duration, started func(pid int)) (process.Exit, error) {
	launch, err := t.jobs.launchProgram()
	if err != nil {
		return process.Exit{}, err
	}
	part := t.grant.Parts[0]
	opening, cancel := context.WithTimeoutCause(ctx, t.resources.StartTimeout, fmt.Errorf("gave up after %v", t.resources.StartTimeout))
	defer cancel()
	x, err := t.jobs.tasks().open(opening, launch, jobs.TaskRequest{Node: part.Node, CPUs: len(part.CPUs), GPUs: len(part.GPUs), Overlap: t.jobs.overlap.Load()}, t.jobs.logger())
	if err == nil {
		var exit process.Exit
		exit, err = execute(ctx, x.Client, spec, t.out.out, patience, started)
		x.close()
		if err == nil && !exit.Lost {
			return exit, nil
		}
		if err == nil {
			err = fmt.Errorf("node %s was lost: %s", part.Node, exit)
		}
	}
	if ctx.Err() == nil {
		t.jobs.suspectNode(ctx, part.Node)
	}
	return process.Exit{}, Fail(NodeLost, err)
}

// executeOnHost runs the trial's process on its host, through an agent there.
func (t *jobTrial) executeOnHost(ctx context.Context, spec process.Spec, patience time.Duration, started func(pid int)) (process.Exit, error) {
	j, node := t.jobs, t.grant.Parts[0].Node
	h, err := hosts.ParseHost(node)
	if err != nil {
		return process.Exit{}, err
	}
	here, err := os.Getwd()
	if err != nil {
		return process.Exit{}, fmt.Errorf("tune: start %s: %w", spec.Name, err)
	}
	var source ssh.Source
	if j.Folder != "" {
		if source, err = t.source(); err != nil {
			return process.Exit{}, err // of this machine: the host is not to blame
		}
	}
	opening, cancel := context.WithTimeoutCause(ctx, t.resources.StartTimeout, fmt.Errorf("gave up after %v", t.resources.StartTimeout))
	defer cancel()
	class := HostUnreachable
	if t.carried {
		spec.Self, spec.Command = true, append([]string{"carry"}, spec.Command...)
	}
	spec.Env = append(process.PassedOn(os.LookupEnv), spec.Env...)
	m, err := j.remote.Dial(opening, h)
	if err == nil {
		defer m.Close()
		class, spec.Dir = NodeLost, here
		if j.Folder != "" {
			spec.Dir = ssh.Folder(j.Folder)
			err = j.remote.Sync(opening, m, source, spec.Dir)
		}
	}
	if err == nil {
		var exit process.Exit
		exit, err = execute(ctx, m.Client, spec, t.out.out, patience, started)
		if err == nil && !exit.Lost || err != nil && !errors.Is(err, agent.ErrLost) {
			return exit, err
		}
		if err == nil {
			err = fmt.Errorf("host %s: %s", node, exit)
		}
	}
	if ctx.Err() == nil {
		j.suspect(node, withoutLaunch{err})
	}
	return process.Exit{}, Fail(class, withoutLaunch{err})
}

// watch ends the trial when one of its nodes was removed, or its workers do not connect in time.
func (t *jobTrial) watch(cancel context.CancelCauseFunc, over chan struct{}) {
	start := time.NewTimer(t.resources.StartTimeout)
	defer start.Stop()
	var lost <-chan struct{} // of an elastic job launch knows what it can do without
	if t.grant != nil {
		lost = t.grant.Lost()
	}
	for {
		select {
		case <-over:
			return
		case <-lost:
			cancel(Fail(NodeLost, fmt.Errorf("node %s was removed", t.grant.Gone())))
			return
		case <-start.C:
			if t.jobs.Command != nil {
				continue // a plain command does not connect
			}
			if n := t.session.Joined(); n < t.workers() {
				cancel(Fail(NodeLost, fmt.Errorf("after %v only %d of %d workers have called tune.Run", t.resources.StartTimeout, n, t.workers())))
				return
			}
		}
	}
}

// joined says whether the program has joined the trial, and reports by itself. What carries a
// command's folder joins, too, and reports nothing.
func (t *jobTrial) joined() bool { return t.session.Joined() > 0 && !t.carried }

// environment are the variables of the processes besides the address of the search.
func (t *jobTrial) environment() []string {
	if t.jobs.HostFile != "" && !t.jobs.NoServers || t.jobs.Cluster != nil || t.elastic != nil {
		return nil // launch sets the variable, or launch slot, or the step has it
	}
	return []string{gpus.Variable + "=" + gpus.Visible(t.grant.Parts[0].GPUs)}
}
