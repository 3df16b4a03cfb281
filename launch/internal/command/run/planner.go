package run

import (
	"context"
	"fmt"
	"os"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/launch/internal/command/options"
	"github.com/paragon-train/paragon/launch/internal/command/start"
	"github.com/paragon-train/paragon/launch/internal/gorun"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/method"
)

// A planner makes the configuration of a job from the command line and the hosts that were found.
// It changes nothing outside of it, but for setMachines, which may build a program, and setElastic,
// which opens the files of an elastic job.
type planner struct {
	o   *options.Options
	env start.Environment

	// method is how the job gets to its hosts, and here how it gets to this machine, which is one
	// of its hosts at least for the scheduler.
	method, here method.Method
}

// place divides the job over the hosts that were found, as the command line says.
func (p *planner) place(found method.Hosts) (job.Config, error) {
	o := p.o
	place, err := found.Place(o.Workers, o.Servers)
	if err != nil {
		return job.Config{}, fmt.Errorf("launch: %w", err)
	}
	return job.Config{
		Places:  job.Places{Workers: place.Workers, Hosts: found.Workers, Servers: place.Servers, ServerHosts: found.Servers, SchedulerHost: o.SchedulerHost},
		Command: o.Command, Role: []string{"role"},
		Env: o.Env.All, ServerEnv: o.Env.Servers, WorkerEnv: o.Env.Workers, GPUs: o.GPUs,
		Dir:           p.method.Dir(),
		Local:         func(ctx context.Context) (job.Machine, error) { return p.here.Dial(ctx, hosts.Local) },
		MetricsListen: o.Observed.MetricsListen, ResumeAsked: o.Env.Resumes(os.Getenv), ResumeCommand: options.ResumeCommand(os.Args),
		HostIP: o.Network.HostIP, Interface: o.Network.Name, TLS: o.Network.TLS,
		Times:   job.Times{StartTimeout: o.Times.Start, StopTimeout: o.Times.Stop, CheckpointTime: o.Times.Checkpoint},
		Elastic: o.Elastic,
	}, nil
}

// setMachines sets how the job gets to its hosts, or builds the workers' program here if all runs
// on this machine. folder is one of this job.
func (p *planner) setMachines(ctx context.Context, cfg *job.Config, folder string) (err error) {
	if !p.method.Remote() {
		cfg.Command, err = gorun.Build(ctx, p.o.Command, folder)
		return err
	}
	cfg.HostTimeout = p.o.Times.Host
	cfg.Env = p.o.Env.ForRemote(os.LookupEnv)
	cfg.Dial = func(ctx context.Context, h hosts.Host) (job.Machine, error) { return dial(ctx, p.method, h) }
	return nil
}

// processMetricsEnv tells workers and servers where to serve metrics of their own (see
// cluster.FromEnv).
const processMetricsEnv = "PARAGON_PROCESS_METRICS"

// setProcesses sets what all processes are told, and what runs the workers' command in a trial.
func (p *planner) setProcesses(cfg *job.Config) {
	cfg.Env = append(cfg.Env[:len(cfg.Env):len(cfg.Env)], joblog.Variable+"="+string(p.o.Output.LogFormat))
	if listen := p.o.Observed.ProcessMetrics; listen != "" {
		cfg.Env = append(cfg.Env, processMetricsEnv+"="+listen)
	}
	if p.o.Trial.Elastic {
		cfg.Command, cfg.OwnCommand = append([]string{"slot"}, cfg.Command...), true
	}
	if p.o.Trial.Carry {
		cfg.Command, cfg.OwnCommand = append([]string{"carry"}, cfg.Command...), true
	}
}
