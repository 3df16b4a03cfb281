package tune

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/gpus"
	"github.com/paragon-train/paragon/internal/hosts"
	"github.com/paragon-train/paragon/internal/process"
	"github.com/paragon-train/paragon/internal/ssh"
	"github.com/paragon-train/paragon/tune/internal/remote"
	"github.com/paragon-train/paragon/tune/internal/slots"
)

// Jobs is a Runner that runs each trial as a separate job of workers, servers and a scheduler. The launch program starts it on this
// machine or, over ssh, on hosts. Processors and GPUs are allocated to one trial at a time.
//
// The workers run this same program: in each of them tune.Run runs the trainable once and returns, and kvstore.Create in the trainable
// joins the trial's job. All workers report the same steps. Rank 0's reports count, and all workers get the same answer, so they stop
// after the same step. A program that does not call tune.Run prints its metrics, one report on each line of rank 0's standard output,
//
//	accuracy=0.91 loss=0.3 step=5
//
// and is terminated when the trial must stop.
//
// A job that has not started within Resources.StartTimeout, a killed process and a lost host are failures of class NodeLost: the trial
// is retried from its newest checkpoint. A host that can no longer be reached is removed.
//
// Set the fields before the search begins.
type Jobs struct {
	// Resources are those of one trial; Config.Resources, if any field of it is set, replaces them. Hosts times Slots workers are
	// spread evenly over Hosts different nodes. Zero Servers is one server.
	Resources Resources
	// HostFile names the hosts, one on each line, as for launch:
	//
	//	[user@]host[:port] [slots=N] [gpus=N] [cpus=N]
	//
	// slots is how many workers of trials run there at a time (without it as many as processors and GPUs allow), gpus how many of its GPUs
	// trials may use (0: none) and cpus how many of its processors (without them all). "" is this machine alone.
	HostFile string
	// Folder is where trials run on hosts; the current folder is copied there for each trial. "" is a folder with the path of the
	// current one, which must exist there.
	Folder string
	// Address is the one at which hosts reach this machine. It is required with HostFile.
	Address string
	// Command is the command of the workers; nil is this program with its arguments.
	Command []string
	// CommandFor, if not nil, makes the command for a trial's parameters from Command.
	CommandFor func(command []string, p Params) ([]string, error)
	// NoServers runs each trial as one process on this machine, without servers and scheduler.
	NoServers bool
	// Launch is the launch program; "" is the one beside this program, or else in PATH.
	Launch string
	// LaunchFlags are further flags for it.
	LaunchFlags []string
	// SSH is the ssh client with options, in words as in a shell; "" is that of the variable PARAGON_SSH, or ssh.
	SSH string
	// Output gets the lines that workers print, each after "[ worker HOST ] :". They are in worker_RANK.log of the attempt's folder
	// in any case.
	Output io.Writer
	// Logger gets messages for people; nil is slog.Default.
	Logger *slog.Logger

	once   sync.Once
	failed error // of prepare
	nodes  *slots.Allocator
	remote *ssh.Method // reaches the hosts; nil: this machine alone
	mu     sync.Mutex  // guards Output
}

// Distributed returns a Runner of distributed trials on this machine.
func Distributed(r Resources) *Jobs { return &Jobs{Resources: r} }

// defaultStart is how long a job may take to start.
const defaultStart = 2 * time.Minute

// prepare finds the nodes.
func (j *Jobs) prepare(ctx context.Context) error {
	j.once.Do(func() { j.failed = j.findNodes(ctx) })
	return j.failed
}

func (j *Jobs) logger() *slog.Logger {
	if j.Logger != nil {
		return j.Logger
	}
	return slog.Default()
}

// resources are those of one trial, with defaults in place of zeros.
func (j *Jobs) resources(given Resources) Resources {
	r := j.Resources
	if given != (Resources{}) {
		r = given
	}
	r.Hosts, r.Slots, r.CPUsPerSlot = max(r.Hosts, 1), max(r.Slots, 1), max(r.CPUsPerSlot, 1)
	if r.Servers == 0 {
		r.Servers = 1
	}
	if r.StartTimeout == 0 {
		r.StartTimeout = defaultStart
	}
	return r
}

func (j *Jobs) request(given Resources) slots.Request {
	r := j.resources(given)
	return slots.Request{Hosts: r.Hosts, Workers: r.Slots, CPUs: r.Slots * r.CPUsPerSlot, GPUs: r.Slots * r.GPUs}
}

// Fits implements Placer.
func (j *Jobs) Fits(r Resources) error {
	if j.NoServers && j.resources(r).Hosts*j.resources(r).Slots != 1 {
		return fmt.Errorf("tune: a trial of %d hosts with %d slots each needs servers", j.resources(r).Hosts, j.resources(r).Slots)
	}
	if err := j.prepare(context.Background()); err != nil {
		return err
	}
	return j.nodes.Fits(j.request(r))
}

// Acquire implements Placer.
func (j *Jobs) Acquire(ctx context.Context, r Resources) (Place, error) {
	if err := j.prepare(ctx); err != nil {
		return nil, err
	}
	g, err := j.nodes.Acquire(ctx, j.request(r))
	if err != nil {
		return nil, err
	}
	return jobPlace{g}, nil
}

type jobPlace struct{ *slots.Grant }

func (p jobPlace) Location() string {
	var names []string
	for _, part := range p.Parts {
		name := part.Node
		if len(part.GPUs) > 0 {
			name += ":gpu" + strings.Join(part.GPUs, "+")
		}
		names = append(names, name)
	}
	return strings.Join(names, ",")
}

// A jobTrial is one running attempt.
type jobTrial struct {
	jobs      *Jobs
	attempt   Attempt
	reporter  *Reporter
	resources Resources
	grant     *slots.Grant
	folder    string // of the attempt
	session   *remote.Session
	out       *jobOutput

	mu     sync.Mutex // guards answer
	answer error      // the answer to the newest report, if it asks the trial to return
	stop   func()     // ends the processes
}

// Run implements Runner.
func (j *Jobs) Run(ctx context.Context, a Attempt, r *Reporter) (err error) {
	place, ok := a.Place.(jobPlace)
	if !ok {
		return errors.New("tune: Jobs.Run: the attempt's Place was not acquired from these Jobs")
	}
	t := &jobTrial{jobs: j, attempt: a, reporter: r, resources: j.resources(a.Resources), grant: place.Grant}
	root, err := r.Folder()
	if err != nil {
		return err
	}
	t.folder = filepath.Join(root, fmt.Sprintf("attempt-%d", a.Number))
	if err := os.MkdirAll(t.folder, 0o777); err != nil {
		return fmt.Errorf("tune: trial %d: %w", a.Trial, err)
	}
	server, err := remote.Listen(j.Address)
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
	t.session = server.Open(task, t.share, t)
	defer t.session.Close()
	return t.run(ctx)
}

func (t *jobTrial) workers() int { return t.resources.Hosts * t.resources.Slots }

func (t *jobTrial) task(root string) (remote.Task, error) {
	params, err := json.Marshal(t.attempt.Params)
	if err != nil {
		return remote.Task{}, fmt.Errorf("tune: trial %d: %w", t.attempt.Trial, err)
	}
	task := remote.Task{Study: cmp.Or(t.attempt.program, t.attempt.Study), Trial: t.attempt.Trial, Attempt: t.attempt.Number, Params: params, Seed: t.attempt.Seed, Workers: t.workers()}
	if t.jobs.HostFile == "" {
		task.Folder = root
	}
	if dir, step, ok := t.reporter.Restore(); ok {
		task.Restore = &remote.Restore{Dir: dir, Step: step, Donor: t.reporter.Donor()}
	}
	return task, nil
}

// share is a rank's share of the processors and GPUs of the trial. Rank i runs on host i/Slots, by the hosts file that launch gets.
func (t *jobTrial) share(rank int) (cpus []int, devices []string) {
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
	watch.Go(func() { t.watch(cancel, over) })
	cpus := []int(nil)
	if t.jobs.HostFile == "" {
		cpus = t.grant.Parts[0].CPUs
	}
	patience := t.attempt.stopAfter()
	if !t.jobs.NoServers {
		patience += patience / 2 // launch ends its processes in order
	}
	spec := process.Spec{Name: fmt.Sprintf("trial %d", t.attempt.Trial), Command: command, Env: append(t.session.Environment(), t.environment()...)}
	exit, err := execute(ctx, spec, t.out.out, cpus, patience, t.jobs.logger())
	close(over)
	watch.Wait()
	t.out.close()
	return t.verdict(ctx, exit, err)
}

// watch ends the trial when one of its nodes was removed, or its workers do not connect in time.
func (t *jobTrial) watch(cancel context.CancelCauseFunc, over chan struct{}) {
	start := time.NewTimer(t.resources.StartTimeout)
	defer start.Stop()
	for {
		select {
		case <-over:
			return
		case <-t.grant.Lost():
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

// environment are the variables of the processes besides the address of the search.
func (t *jobTrial) environment() []string {
	if t.jobs.HostFile != "" {
		return nil // launch sets it by --gpus
	}
	return []string{gpus.Variable + "=" + gpus.Visible(t.grant.Parts[0].GPUs)}
}

// command is what starts the trial.
func (t *jobTrial) command() ([]string, error) {
	j := t.jobs
	program := j.Command
	if program == nil {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("tune: find this program: %w", err)
		}
		program = append([]string{self}, os.Args[1:]...)
	}
	if j.CommandFor != nil {
		var err error
		if program, err = j.CommandFor(slices.Clone(program), t.attempt.Params); err != nil {
			return nil, fmt.Errorf("tune: command of trial %d: %w", t.attempt.Trial, err)
		}
	}
	if len(program) == 0 || program[0] == "" {
		return nil, errors.New("tune: Jobs.Command is empty")
	}
	if j.NoServers {
		return program, nil
	}
	launch, err := j.launchProgram()
	if err != nil {
		return nil, err
	}
	r := t.resources
	args := []string{launch, "--output", "json", "--result", filepath.Join(t.folder, resultFile), "-n", strconv.Itoa(t.workers()), "-s", strconv.Itoa(r.Servers), "--start-timeout", r.StartTimeout.String(),
		"--stop-timeout", t.attempt.stopAfter().String(), "--env-worker", remote.AddressVariable, "--env-worker", remote.TokenVariable}
	if j.HostFile != "" {
		file := filepath.Join(t.folder, "hosts")
		var lines strings.Builder
		for _, p := range t.grant.Parts {
			h, err := hosts.ParseHost(p.Node)
			if err != nil {
				return nil, fmt.Errorf("tune: trial %d: %w", t.attempt.Trial, err)
			}
			h.Slots = r.Slots
			fmt.Fprintln(&lines, h.Entry())
		}
		if err := os.WriteFile(file, []byte(lines.String()), 0o666); err != nil {
			return nil, fmt.Errorf("tune: trial %d: %w", t.attempt.Trial, err)
		}
		args = append(args, "-H", file, "--host-ip", j.Address, "--gpus", gpuFlag(t.grant))
		if j.SSH != "" {
			args = append(args, "--ssh-command", j.SSH)
		}
		if j.Folder != "" {
			args = append(args, "--sync-dst-dir", j.Folder)
		}
		// On a host this program is in the copy of the current folder.
		if here, err := os.Getwd(); err == nil && filepath.IsAbs(program[0]) {
			if rel, err := filepath.Rel(here, program[0]); err == nil && !strings.HasPrefix(rel, "..") {
				program[0] = "./" + rel
			}
		}
	} else {
		args = append(args, "--env-worker", gpus.Variable)
	}
	args = append(append(args, j.LaunchFlags...), "--")
	return append(args, program...), nil
}

// gpuFlag is launch's --gpus for a trial: the UUIDs of its GPUs, which launch divides over the workers of each host.
func gpuFlag(g *slots.Grant) string {
	var all []string
	for _, p := range g.Parts {
		all = append(all, p.GPUs...)
	}
	if len(all) == 0 {
		return "0"
	}
	return strings.Join(all, ",")
}

// launchProgram finds launch.
func (j *Jobs) launchProgram() (string, error) {
	if j.Launch != "" {
		return filepath.Abs(j.Launch)
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "launch")
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return beside, nil
		}
	}
	path, err := exec.LookPath("launch")
	if err != nil {
		return "", fmt.Errorf("tune: the launch program is neither beside this program nor in PATH; build it (go build github.com/paragon-train/paragon/launch) or set Jobs.Launch: %w", err)
	}
	return path, nil
}
