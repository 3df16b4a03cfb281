package trialjob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/affinity"
	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/tune/internal/nodes"
)

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
	if client, err = agent.NewClient(context.Background(), nodes.LocalName, toAgent, fromAgent); err != nil {
		return nil, nil, errors.Join(err, <-served)
	}
	return client, func() {
		closing, cancel := context.WithTimeout(context.Background(), nodes.KillTimeout)
		defer cancel()
		_ = client.Close(closing)
	}, nil
}

// execute runs a process until it and its process group are gone. When ctx ends the group gets
// SIGTERM, and after patience SIGKILL. started gets its process ID.
func execute(ctx context.Context, client *agent.Client, spec process.Spec, out process.Output, patience time.Duration, started func(pid int)) (process.Exit, error) {
	h, err := client.Start(context.Background(), spec, out)
	if err != nil {
		return process.Exit{}, fmt.Errorf("tune: %w", nodes.WithoutLaunch(err))
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
	timer.Reset(nodes.KillTimeout)
	select {
	case <-h.Done():
		return h.Exit(), nil
	case <-timer.C:
		return process.Exit{}, fmt.Errorf("tune: %s (process %d) is still there %v after SIGKILL", spec.Name, h.PID(), nodes.KillTimeout)
	}
}
