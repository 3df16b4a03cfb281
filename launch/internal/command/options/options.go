// Package options is the command line of launch itself: its flags, their help, and what they say
// when they have been read and checked together.
//
// Whatever a user can get wrong is refused here, before anything is started, as an error of the
// command line that says what to write instead. Reading has no effects: launch k8s and launch slurm
// read the command line of a launch that will run elsewhere.
//
// Each group of flags is a type with a method read, in a file of its own. A group is given what it
// needs to know of the others, and refuses flags that would have no effect beside them.
package options

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/method"
)

// Options are a job's command line, read and checked: no two of them contradict each
// other. Reading them starts nothing and writes nothing.
type Options struct {
	// Command is that of the workers. It is empty only with check.
	Command []string

	// Workers and Servers are the numbers with which the job begins, each at least 1 and together
	// at most what a job may have. Those of workers may change while it runs, see Elastic.
	Workers, Servers int

	// Check is --check: no job is started.
	Check bool

	// Start is the start method, with the flags that belong to it.
	Start Start

	// SchedulerHost is nil for this machine.
	SchedulerHost *hosts.Host

	// GPUs is what each worker is given; empty: workers see all GPUs of their host.
	GPUs gpus.Request

	// Env has the variables that the command line gives to processes, as NAME=VALUE.
	Env Environment

	// Network says how processes reach each other.
	Network Network

	// Times bounds how long things may take.
	Times Times

	// Elastic says how the job may change while it runs. Its functions and its files are set when
	// the job is started.
	Elastic job.Elastic

	// Survival says what the job outlives besides.
	Survival Survival

	// Observed says who can watch the job.
	Observed Observed

	// Output says in which form launch writes what.
	Output Output

	// Trial makes the job one of launch tune's.
	Trial Trial
}

// Read reads the command line of a job that would run here.
func Read(c *cli.Context) (*Options, error) { return ReadFor(c, os.LookupEnv) }

// ReadFor reads the command line of a job that would run where the variables of Slurm are
// those of lookup. The first flag that is wrong decides the error. A step is given what it needs of
// those before it, and nothing else, which is why their order matters.
func ReadFor(c *cli.Context, lookup func(string) (string, bool)) (*Options, error) {
	o := &Options{Check: c.Bool("check"), Trial: Trial{Elastic: c.Bool(trialFlag), Carry: c.Bool(carryFlag)}}
	for _, step := range []func() error{
		func() error { return o.Output.read(c, o.Check) },
		func() (err error) { o.Workers, o.Servers, err = readNumbers(c, o.Check, lookup); return err },
		func() error { return o.Times.read(c) },
		func() error { return o.Start.read(c, request{o.Workers, o.Times.Host, lookup}) },
		func() (err error) {
			o.SchedulerHost, err = readPlaces(c, o.Start.Hosts, o.Workers, o.Servers)
			return err
		},
		func() error { return o.Network.read(c, o.Start.Remote, o.SchedulerHost == nil) },
		func() (err error) { o.Elastic, err = readElastic(c, o.Workers, o.Servers, o.Start.Hosts); return err },
		func() error { return o.Survival.readState(c, o.SchedulerHost == nil) },
		func() error { return o.Start.readSource(c, o.Elastic.Enabled && !o.Trial.Elastic) },
		func() (err error) { o.Env, err = readEnvironment(c); return err },
		func() (err error) { o.GPUs, err = readGPUs(c); return err },
		func() error { return o.Observed.readMetrics(c) },
		func() error { return o.Observed.readSpans(c) },
		func() error { return o.Survival.readSpot(c) },
		func() (err error) { o.Observed.Page, err = readPage(c, o.Trial.Elastic); return err },
		func() (err error) { o.Command, err = readCommand(c, o.Check, o.Workers); return err },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// Trial makes the job a trial of launch tune.
type Trial struct {
	// Elastic is trialFlag, and carry is carryFlag.
	Elastic, Carry bool
}

// readPlaces refuses hosts without places for all workers and servers, and reads the scheduler's
// host; nil: this machine. Nothing is refused if the hosts are known only when the job starts.
func readPlaces(c *cli.Context, known []hosts.Host, workers, servers int) (scheduler *hosts.Host, err error) {
	if known != nil {
		if _, err := method.Any(known).Place(workers, servers); err != nil {
			return nil, command.Usage(fmt.Errorf("launch: %w", err))
		}
	}
	if s := c.String("scheduler-host"); s != "" {
		h, err := hosts.ParseHost(s)
		if err != nil {
			return nil, command.Usagef("--scheduler-host: %v", err)
		}
		return &h, nil
	}
	return nil, nil
}

// readGPUs reads the GPUs of each worker. Without --gpus the request is empty, and workers see what
// their host has.
func readGPUs(c *cli.Context) (r gpus.Request, err error) {
	if !c.IsSet("gpus") {
		return r, nil
	}
	if r, err = gpus.Parse(c.String("gpus")); err != nil {
		return r, command.Usage(err)
	}
	return r, nil
}

// readCommand reads the command of the workers, which only --check does without.
func readCommand(c *cli.Context, check bool, workers int) ([]string, error) {
	words := WorkerCommand(c.Args().Slice())
	if len(words) == 0 && !check {
		return nil, command.Usagef("no command for the workers; write it at the end: launch -n %d ./program", workers)
	}
	return words, nil
}
