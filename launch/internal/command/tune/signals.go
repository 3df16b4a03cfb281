package tune

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// ExitInterrupted is the exit code of a search that was interrupted, as shells have it.
const ExitInterrupted = 130

// errRequeue is the cause of the end of a search that SIGUSR1 stopped.
var errRequeue = errors.New("SIGUSR1")

// requeueContext ends with SIGUSR1, for the cause errRequeue. A search has all that it needs to go
// on in its folder, at any time.
func requeueContext(ctx context.Context) (context.Context, func()) {
	ctx, stop := context.WithCancelCause(ctx)
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGUSR1)
	go func() {
		select {
		case <-caught:
			stop(errRequeue)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(caught)
		stop(nil)
	}
}

// searchContext ends with Ctrl-C, SIGTERM and SIGUSR1. After the first of the former two another
// one ends launch at once.
func searchContext(ctx context.Context, logger *slog.Logger) (_ context.Context, forget func()) {
	ctx, forgetSignals := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	stopNotice := context.AfterFunc(ctx, func() {
		forgetSignals()
		logger.Info("tune: interrupted: waiting for the running trials to end; Ctrl-C again ends them at once")
	})
	ctx, forgetRequeue := requeueContext(ctx)
	return ctx, func() {
		forgetRequeue()
		stopNotice()
		forgetSignals()
	}
}
