// Package schedulernode is the role of a job that keeps its membership.
//
// A job has workers, servers and one scheduler. Workers and servers register with the scheduler.
// When all have registered, it gives each its rank, and the job runs. The scheduler places the
// shards of keys on servers, gets a heartbeat of every node once a second, and changes the
// membership when workers join, leave or are lost. Gradients and values do not pass through it.
//
// The command launch starts the scheduler by itself. A program needs this package only to run a
// scheduler within its own process. It reads the number of nodes, and its own address, from the
// environment variables that launch would set (launch --help lists them), or from a function in
// place of the environment:
//
//	err := schedulernode.Run(ctx, schedulernode.Config{Env: func(name string) string { return variables[name] }, Ready: func(addr string) { ... }})
//
// Run returns when the job has ended. With PARAGON_STATE it keeps a journal, and a scheduler that
// is started again goes on with the same job.
package schedulernode

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/scheduler"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// ErrFailed is in the chain of Run's error when the job failed; the text says why.
var ErrFailed = cluster.ErrFailed

// Config configures a scheduler. The zero value of a field takes the default beside it.
type Config struct {
	// Env is asked for the variables that describe the job, such as DMLC_PS_ROOT_URI and
	// PARAGON_STATE: os.Getenv.
	Env func(name string) string
	// Ready is called with the address that the scheduler listens on, as soon as it does; nil:
	// nothing. With port 0 in DMLC_PS_ROOT_PORT the system chooses the port.
	Ready func(addr string)

	// Logger gets the log. Default: slog.Default() with the level of PARAGON_LOG, or JSON on
	// the standard error if PARAGON_LOG_FORMAT is json.
	Logger *slog.Logger
}

// Run is the scheduler of the job that the environment describes, whatever role the environment
// says. It returns nil when the job finished, and an error with the reason when it failed. When ctx
// ends first, the job fails, and Run returns ctx's cause.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Logger == nil {
		var err error
		if cfg.Logger, err = joblog.Default(cfg.Env); err != nil {
			return fmt.Errorf("schedulernode: %w", err)
		}
	}
	if cfg.Env == nil {
		cfg.Env = os.Getenv
	}
	job, err := cluster.FromEnv(cfg.Env)
	if err != nil {
		return fmt.Errorf("schedulernode: %w", err)
	}
	job.Logger = cfg.Logger
	return scheduler.Run(ctx, scheduler.Config{Config: job, Ready: cfg.Ready})
}
