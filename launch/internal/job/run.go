package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/identity"
)

// ErrStart is in the chain of errors of jobs that never ran.
var ErrStart = errors.New("launch: the job was not started")

// ErrCopy is in the chain of errors of Config.Dial where the host was reached, and the job's folder
// could not be copied there.
var ErrCopy = errors.New("the folder was not copied")

// Run runs a job to its end. When it returns no process of the job is left on any machine that can
// be reached. The Result is valid with an error, too: the error tells why the job could not be run,
// or that machines were not left clean.
func Run(ctx context.Context, cfg Config) (res Result, err error) {
	if err := cfg.setDefaults(); err != nil {
		return Result{Code: 2}, err
	}
	s := newShell(cfg)
	cfg.Watcher.Begun(s.id)
	defer func() { cfg.Watcher.Over(res.Report(err, res.Code)) }()
	if cfg.TLS {
		var err error
		if s.authority, err = identity.NewAuthority(s.id); err != nil {
			return Result{Code: 1, job: s.id}, fmt.Errorf("%w:\nlaunch: %w", ErrStart, err)
		}
	}
	s.controls = s.controlVariables()
	c := newCore(cfg.settings(s.id), time.Now())
	s.run(ctx, c)
	res = c.result()
	if c.start.err != nil {
		return res, fmt.Errorf("%w:\n%w", ErrStart, c.start.err)
	}
	if s.json {
		logEnd(cfg.Logger, c)
		return res, s.closeErr
	}
	cfg.Output.Print(endTable(c))
	if text := c.explain(); text != "" {
		cfg.Output.Print(text + "\n")
	}
	return res, s.closeErr
}

// logEnd says in a JSON log how the job ended.
func logEnd(log *slog.Logger, c *core) {
	switch text := c.explain(); {
	case c.code() == 0:
		log.Info("the job has finished", joblog.JobFinished.With("exit_code", 0))
	case c.interrupt.signal == 0 && c.checkpoint.complete():
		log.Warn(text, joblog.JobStopping.With("steps", c.checkpoint.stopped.Steps, "exit_code", c.code()))
	case c.interrupt.signal != 0:
		log.Warn(text, joblog.JobStopping.With("signal", int(c.interrupt.signal), "exit_code", c.code()))
	default:
		failed, culprit := c.finalFailure(), joblog.Node{Rank: -1}
		if n := c.culpritNode(); n != nil {
			culprit = n.logged()
		}
		code := control.ProcessFailed
		if failed != nil {
			code = failed.Code
		}
		log.Error(text, joblog.JobFailed.Of(culprit, "failure", code, "reason", text, "exit_code", c.code()))
	}
}

// settings are what the core needs to know of the Config.
func (c *Config) settings(id string) settings {
	e := &c.Elastic
	return settings{
		ID: id, Hosts: c.Hosts, MinWorkers: e.MinWorkers, MaxWorkers: e.MaxWorkers, AdaptWorkers: e.AdaptWorkers, Workers: c.Workers, Servers: c.Servers, ServerHosts: c.ServerHosts, Scheduler: c.SchedulerHost, Metrics: c.MetricsListen, Remote: c.Dial != nil, HostIP: c.HostIP, GPUs: c.GPUs,
		StartTimeout: c.StartTimeout, StopTimeout: c.StopTimeout, HostTimeout: c.HostTimeout, FinishTime: c.FinishTime, CheckpointTime: c.CheckpointTime,
		Elastic: e.Enabled, Changes: e.Changes(), OnWorkerLoss: e.OnWorkerLoss, JoinTimeout: e.JoinTimeout, Rejoin: e.Rejoin, Backups: e.Backups,
		Prepare: len(e.PrepareData) > 0, State: e.State != "", ResumeCommand: c.ResumeCommand,
	}
}

// SignalCode is the exit code of a launch that a signal stopped.
func SignalCode(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 1
}
