// Package server is the role of a job that holds the parameters.
//
// A job has workers, servers and one scheduler. Each server owns shards, the pieces into which the
// values of keys are cut. It adds up what the workers push to a shard; when every worker has
// contributed, the round closes: the server applies the optimizer once, and answers those who wait
// for the new value.
//
// The command launch starts servers by itself. A program needs this package only to run a server
// within its own process. The server reads its job, and the address of the scheduler, from the
// environment variables that launch would set (launch --help lists them), or from a function in
// place of the environment:
//
//	err := server.Run(ctx, server.Config{Env: func(name string) string { return variables[name] }})
//
// Run returns when the job has ended. Packages schedulernode and kvstore have the other two roles.
package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/servernode"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/shardserver"
)

// Config configures a server. The zero value of a field takes the default beside it.
type Config struct {
	// Env looks up the environment variables that describe the job, such as DMLC_PS_ROOT_URI.
	// Default: os.Getenv.
	Env func(name string) string

	// MaxShards is the maximum number of shards, backups included. Default: 2 Mi.
	MaxShards int
	// MaxBytes is the maximum size of all values and indices of rows together, without
	// optimizer state. Default: 16 GiB.
	MaxBytes int64
	// MaxWait is the maximum time that a request waits, whatever it asks for. Default: 1 h.
	MaxWait time.Duration
	// ExplainAfter is how long a request waits before the log says, from time to time, whom it
	// waits for. Default: 5 s.
	ExplainAfter time.Duration
	// CatchUp is how long a request of a newer generation waits until the server learns of that
	// generation. Default: 5 s.
	CatchUp time.Duration

	// Logger gets the log. Default: slog.Default() with the level of PARAGON_LOG, or JSON on
	// the standard error if PARAGON_LOG_FORMAT is json.
	Logger *slog.Logger
}

// Run joins the job that the environment describes as a server, whatever role the environment says,
// and serves until the job has ended: nil if it finished, else why it failed. When ctx ends first,
// the server leaves, which fails the job, and Run returns ctx's cause.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Logger == nil {
		var err error
		if cfg.Logger, err = joblog.Default(cfg.Env); err != nil {
			return fmt.Errorf("server: %w", err)
		}
	}
	if cfg.Env == nil {
		cfg.Env = os.Getenv
	}
	job, err := cluster.FromEnv(cfg.Env)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	job.Logger = cfg.Logger
	return servernode.Run(ctx, job, shardserver.Config{MaxShards: cfg.MaxShards, MaxBytes: cfg.MaxBytes, MaxWait: cfg.MaxWait,
		ExplainAfter: cfg.ExplainAfter, CatchUp: cfg.CatchUp, Logger: cfg.Logger})
}
