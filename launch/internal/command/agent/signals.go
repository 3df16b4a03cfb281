package agent

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// A stopSignal ends an agent's context.
type stopSignal struct{ syscall.Signal }

// Error implements error. The text goes into the agent's log.
func (s stopSignal) Error() string { return "got " + s.Signal.String() }

// agentContext ends with the first signal that asks the agent to end; its cause is a stopSignal.
func agentContext() (ctx context.Context, stop func()) {
	// The launcher may be gone when we write to it: SIGPIPE must not end the agent before it
	// has ended its children. Notify, unlike Ignore, is not inherited by them.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(context.Background())
	caught := make(chan os.Signal, 1)
	catch := []os.Signal{syscall.SIGINT, syscall.SIGTERM}

	// Under nohup it stays ignored.
	if !signal.Ignored(syscall.SIGHUP) {
		catch = append(catch, syscall.SIGHUP)
	}
	signal.Notify(caught, catch...)
	go func() {
		select {
		case s := <-caught:
			cancel(stopSignal{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(caught); cancel(nil) }
}
