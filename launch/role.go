package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/paragon-train/paragon/launch/process"
)

// A role is this program as a part of the job; report tells the launcher, once, the address that a scheduler listens on.
type role func(ctx context.Context, getenv func(string) string, report func(addr string) error) error

// roles are what DMLC_ROLE may ask of `launch role`.
var roles = map[string]role{}

// runRole is `launch role`.
func runRole(log *slog.Logger) int {
	name := os.Getenv("DMLC_ROLE")
	r := roles[name]
	if r == nil {
		log.Error(fmt.Sprintf("launch: role: DMLC_ROLE is %q, want scheduler or server", name))
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := r(ctx, os.Getenv, report); err != nil && ctx.Err() == nil {
		log.Error(err.Error())
		return 1
	}
	return 0
}

// report writes to the pipe that the launcher reads. Without a launcher there is none.
func report(addr string) error {
	text := os.Getenv(process.ReportEnv)
	if text == "" {
		return nil
	}
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 3 {
		return fmt.Errorf("launch: role: %s is %q, want a file descriptor", process.ReportEnv, text)
	}
	f := os.NewFile(uintptr(fd), "report")
	if f == nil {
		return fmt.Errorf("launch: role: %s is %q, which is not open", process.ReportEnv, text)
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, addr)
	return err
}
