package tune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/affinity"
	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/process"
)

// stopTimeout is how long a trial's processes have to end when they are told to; less if the search
// gives a trial up before.
const stopTimeout = 10 * time.Second

// stopAfter is how long the processes of an attempt have to end: they are to be gone before the
// search gives the attempt up.
func (a *Attempt) stopAfter() time.Duration {
	if a.grace > 0 {
		return min(stopTimeout, a.grace/2)
	}
	return stopTimeout
}

// withoutLaunch is an error of a package that tune shares with launch, without launch's name before
// it.
type withoutLaunch struct{ error }

func (e withoutLaunch) Error() string { return strings.TrimPrefix(e.error.Error(), "launch: ") }
func (e withoutLaunch) Unwrap() error { return e.error }

// killTimeout bounds the wait for processes that were killed.
const killTimeout = 5 * time.Second

// localAgent serves an agent within this process, on these processors (none: all): should this
// process die, the kernel kills what the agent has started. close ends it.
func localAgent(cpus []int, logger *slog.Logger) (client *agent.Client, close func(), err error) {
	in, toAgent := io.Pipe()
	fromAgent, agentOut := io.Pipe()
	served := make(chan error, 1)
	go func() {
		err := affinity.Start(cpus, func() error {
			return agent.Serve(context.Background(), in, agentOut, agent.Config{Lease: -1, Logger: logger})
		})
		agentOut.Close()
		in.Close()
		served <- err
	}()
	if client, err = agent.NewClient(context.Background(), localName, toAgent, fromAgent); err != nil {
		return nil, nil, errors.Join(err, <-served)
	}
	return client, func() {
		closing, cancel := context.WithTimeout(context.Background(), killTimeout)
		defer cancel()
		_ = client.Close(closing)
	}, nil
}

// execute runs a process until it and its process group are gone. When ctx ends the group gets
// SIGTERM, and after patience SIGKILL. started gets its process ID.
func execute(ctx context.Context, client *agent.Client, spec process.Spec, out process.Output, patience time.Duration, started func(pid int)) (process.Exit, error) {
	h, err := client.Start(context.Background(), spec, out)
	if err != nil {
		return process.Exit{}, fmt.Errorf("tune: %w", withoutLaunch{err})
	}
	started(h.PID())
	select {
	case <-h.Done():
		return h.Exit(), nil
	case <-ctx.Done():
	}
	h.Signal(syscall.SIGTERM)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-h.Done():
		return h.Exit(), nil
	case <-timer.C:
	}
	h.Signal(syscall.SIGKILL)
	timer.Reset(killTimeout)
	select {
	case <-h.Done():
		return h.Exit(), nil
	case <-timer.C:
		return process.Exit{}, fmt.Errorf("tune: %s (process %d) is still there %v after SIGKILL", spec.Name, h.PID(), killTimeout)
	}
}
