// Package server is the role of a job that holds the parameters.
//
// A job has workers, servers and one scheduler. Each server owns shards, the pieces into which the values of keys are cut. It adds up what the
// workers push to a shard; when every worker has contributed, the round closes: the server applies the optimizer once, and answers those who wait
// for the new value.
//
// The command launch starts servers by itself. A program needs this package only to run one within a process of its own. Which job that is, and
// where its scheduler listens, is in the environment variables that launch would set (launch --help lists them), or in a function that stands in for
// them:
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

	"github.com/paragon-train/paragon/internal/cluster"
	"github.com/paragon-train/paragon/internal/joblog"
	"github.com/paragon-train/paragon/internal/shardserver"
)

// Config configures a server. The zero value of a field takes the default beside it.
type Config struct {
	// Env is asked for the variables that describe the job, such as DMLC_PS_ROOT_URI: os.Getenv.
	Env func(name string) string

	MaxShards int           // shards held: 1 Mi
	MaxBytes  int64         // of all values and indices of rows together, without optimizer state: 16 GiB
	MaxWait   time.Duration // the longest a request may wait, whatever it asks for: 1 h
	// ExplainAfter is how long requests wait before the log says whom for, every so often: 5 s.
	ExplainAfter time.Duration
	// CatchUp is how long a request of a newer generation than the server knows waits for the server to hear of it: 5 s.
	CatchUp time.Duration

	// Logger; nil: slog.Default() with the level that PARAGON_LOG says, or JSON on the standard error where PARAGON_LOG_FORMAT is json.
	Logger *slog.Logger
}

// Run joins the job that the environment describes as a server, whatever role the environment says, and serves until the job has
// ended: nil if it finished, else why it failed. When ctx ends first, the server leaves, which fails the job, and Run returns ctx's cause.
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
	return shardserver.Run(ctx, job, shardserver.Config{MaxShards: cfg.MaxShards, MaxBytes: cfg.MaxBytes, MaxWait: cfg.MaxWait,
		ExplainAfter: cfg.ExplainAfter, CatchUp: cfg.CatchUp, Logger: cfg.Logger})
}
