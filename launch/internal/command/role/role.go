package role

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/scheduler"
	"github.com/paragon-train/paragon/launch/internal/bridge"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/server"
	"github.com/paragon-train/paragon/tune/carry"
	"github.com/paragon-train/paragon/tune/slot"
)

// A role is this program as a part of the job; report tells the launcher: first the address that a
// scheduler listens on.
type role func(ctx context.Context, getenv func(string) string, report func(line string) error) error

// roles are what DMLC_ROLE may ask of `launch role`.
var roles = map[string]role{"scheduler": runScheduler, "server": runServer}

// runScheduler is the scheduler of a job. The launcher waits for its address, the first line that
// it reports, before it starts anything else.
func runScheduler(ctx context.Context, getenv func(string) string, report func(line string) error) error {
	cfg, err := cluster.FromEnv(getenv)
	if err != nil {
		return err
	}
	done, err := openState(&cfg)
	if err != nil {
		return err
	}

	// A scheduler that was killed, and is started again, needs it.
	defer done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	metrics, err := serveMetrics(getenv, cfg)
	if err != nil {
		return err
	}
	defer metrics.close()
	return scheduler.Run(ctx, scheduler.Config{Config: cfg, Telemetry: metrics.telemetry, Ready: func(addr string) {
		if err := report(addr); err != nil {
			// No node would ever find this scheduler.
			cancel(err)
		}
		metrics.report(report)
	},
		// If the launcher is gone, its agent ends this process.
		Report: func(line string) { _ = report(line) },
	})
}

// openState makes the folder of the scheduler's file; what it returns removes the file.
func openState(cfg *cluster.Config) (done func(), err error) {
	// State in etcd has no folder here.
	if cfg.State == "" || strings.Contains(cfg.State, "://") {
		return func() {}, nil
	}
	if rest, ok := strings.CutPrefix(cfg.State, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("launch: scheduler: state: %w", err)
		}
		cfg.State = filepath.Join(home, rest)
	}
	if err := os.MkdirAll(filepath.Dir(cfg.State), 0o700); err != nil {
		return nil, fmt.Errorf("launch: scheduler: state: %w", err)
	}
	return func() { os.Remove(cfg.State) }, nil
}

// runServer is a server of a job.
func runServer(ctx context.Context, getenv func(string) string, _ func(line string) error) error {
	return server.Run(ctx, server.Config{Env: getenv})
}

// Run is `launch role`, and `launch role bridge`, which a Python process starts.
func Run(args []string, log *slog.Logger) int {
	if len(args) > 0 && args[0] == "bridge" {
		return bridge.Run(args[1:], log)
	}
	name := os.Getenv("DMLC_ROLE")
	r := roles[name]
	if r == nil {
		log.Error(fmt.Sprintf("launch: role: DMLC_ROLE is %q, want scheduler or server", name))
		return command.ExitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	// After a signal an error is what the signal has caused.
	if err := r(ctx, os.Getenv, reporter()); err != nil && ctx.Err() == nil {
		log.Error(err.Error())
		return 1
	}
	return 0
}

// RunSlot is `launch slot COMMAND...`.
func RunSlot(command []string, log *slog.Logger) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := slot.Exec(ctx, command)
	stop()
	log.Error(err.Error())
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return 127
	}
	return 1
}

// RunCarry is `launch carry COMMAND...`.
func RunCarry(command []string, stdout, stderr io.Writer, log *slog.Logger) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	code, err := carry.Run(ctx, command, stdout, stderr)
	if err != nil {
		log.Error(err.Error())
	}
	return code
}

// reporter writes lines to the pipe that the launcher reads. Without a launcher there is none.
func reporter() func(line string) error {
	// A process that people start by hand has nobody to report to.
	text := os.Getenv(process.ReportEnv)
	if text == "" {
		return func(string) error { return nil }
	}
	var f *os.File
	if fd, err := strconv.Atoi(text); err == nil && fd >= 3 {
		f = os.NewFile(uintptr(fd), "report")
	}
	return func(line string) error {
		if f == nil {
			return fmt.Errorf("launch: role: %s is %q, want an open file descriptor", process.ReportEnv, text)
		}
		_, err := fmt.Fprintln(f, line)
		return err
	}
}
