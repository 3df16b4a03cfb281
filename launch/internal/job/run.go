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
	cfg.Observer.Begun(s.id)
	defer func() { cfg.Observer.Over(res.Report(err, res.Code)) }()
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
	if res.notStarted != nil {
		return res, fmt.Errorf("%w:\n%w", ErrStart, res.notStarted)
	}
	if s.json {
		logEnd(cfg.Logger, &res)
		return res, s.closeErr
	}
	cfg.Output.Print(endTable(&res))
	if res.text != "" {
		cfg.Output.Print(res.text + "\n")
	}
	return res, s.closeErr
}

// logEnd says in a JSON log how the job ended.
func logEnd(log *slog.Logger, r *Result) {
	switch {
	case r.Code == 0:
		log.Info("the job has finished", joblog.JobFinished.With("exit_code", 0))
	case r.savedSteps > 0:
		log.Warn(r.text, joblog.JobStopping.With("steps", r.savedSteps, "exit_code", r.Code))
	case r.signal != nil:
		log.Warn(r.text, joblog.JobStopping.With("signal", r.Code-128, "exit_code", r.Code))
	default:
		culprit, code := joblog.Node{Rank: -1}, control.ProcessFailed
		if r.culprit != nil {
			culprit = r.culprit.logged()
		}
		if r.failure != nil {
			code = r.failure.Code
		}
		log.Error(r.text, joblog.JobFailed.Of(culprit, "failure", code, "reason", r.text, "exit_code", r.Code))
	}
}

// settings are what the core needs to know of the Config.
func (c *Config) settings(id string) settings {
	return settings{Places: c.Places, Times: c.Times, Elastic: c.Elastic, ID: id, GPUs: c.GPUs, Remote: c.Dial != nil,
		Metrics: c.MetricsListen, HostIP: c.HostIP, ResumeCommand: c.ResumeCommand}
}

// SignalCode is the exit code of a launch that a signal stopped.
func SignalCode(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 1
}
