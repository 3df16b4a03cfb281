package processes

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/scheduler"
	"github.com/paragon-train/paragon/internal/member/servernode"
	"github.com/paragon-train/paragon/internal/store/shardserver"
)

// Main is a process of a job, as its variables say. It ends with its standard input, whatever
// becomes of the command that started it. Messages of the level and above go to standard error;
// prepare, which may be nil, may change how the process talks to others.
func Main(level slog.Level, prepare func(cfg *cluster.Config) error, worker func(ctx context.Context, cfg cluster.Config) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	cfg, err := cluster.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if prepare != nil {
		if err := prepare(&cfg); err != nil {
			return err
		}
	}
	switch cfg.Role {
	case cluster.Scheduler:
		return scheduler.Run(ctx, scheduler.Config{Config: cfg, Ready: func(addr string) { fmt.Println(addr) }})
	case cluster.Server:
		return servernode.Run(ctx, cfg, shardserver.Config{})
	}
	return worker(ctx, cfg)
}
