package trialjob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/tune/internal/nodes"
)

// execute runs the trial's process: on this machine, where launch reaches hosts by itself, in a
// task on its node, or without launch on its host.
func (t *trial) execute(ctx context.Context, spec process.Spec, patience time.Duration, started func(pid int)) (process.Exit, error) {
	switch {
	case t.settings.Place == ClusterNodes:
		return t.executeTask(ctx, spec, patience, started)
	case t.settings.Place == Hosts && t.settings.NoServers:
		return t.executeOnHost(ctx, spec, patience, started)
	}
	var cpus []int
	if t.settings.Place == ThisMachine && t.Grant != nil {
		cpus = t.Grant.Parts[0].CPUs
	}
	client, closeAgent, err := localAgent(cpus, t.settings.Logger)
	if err != nil {
		return process.Exit{}, fmt.Errorf("tune: start %s: %w", spec.Name, err)
	}
	defer closeAgent()
	return execute(ctx, client, spec, t.out.out, patience, started)
}

// executeTask runs the trial's process in a task. A node that is lost is no fault of the trial.
func (t *trial) executeTask(ctx context.Context, spec process.Spec, patience time.Duration, started func(pid int)) (process.Exit, error) {
	if _, err := t.settings.Launch(); err != nil {
		// The node is not to blame for this error.
		return process.Exit{}, err
	}
	part, tasks := t.Grant.Parts[0], t.runner.Nodes.Tasks()
	opening, cancel := t.starting(ctx)
	defer cancel()
	x, err := tasks.Open(opening, part)
	if err == nil {
		var exit process.Exit
		exit, err = execute(ctx, x.Client, spec, t.out.out, patience, started)
		x.Close()
		if err == nil && !exit.Lost {
			return exit, nil
		}
		if err == nil {
			err = fmt.Errorf("node %s was lost: %s", part.Node, exit)
		}
	}
	if ctx.Err() == nil {
		tasks.Suspect(ctx, part.Node)
	}
	return process.Exit{}, fail(NodeLost, err)
}

// starting bounds the start of the attempt's process.
func (t *trial) starting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, t.Resources.StartTimeout, fmt.Errorf("gave up after %v", t.Resources.StartTimeout))
}

// executeOnHost runs the trial's process on its host, through an agent there. An error that comes
// from this machine's files is no fault of the host.
func (t *trial) executeOnHost(ctx context.Context, spec process.Spec, patience time.Duration, started func(pid int)) (process.Exit, error) {
	node := t.Grant.Parts[0].Node
	h, err := hosts.ParseHost(node)
	if err != nil {
		return process.Exit{}, err
	}
	here, err := os.Getwd()
	if err != nil {
		return process.Exit{}, fmt.Errorf("tune: start %s: %w", spec.Name, err)
	}
	var source ssh.Source
	if t.settings.Folder != "" {
		if source, err = t.source(); err != nil {
			return process.Exit{}, err
		}
	}
	if t.state.carried {
		spec.Self, spec.Command = true, append([]string{"carry"}, spec.Command...)
	}
	spec.Env = append(process.PassedOn(os.LookupEnv), spec.Env...)

	opening, cancel := t.starting(ctx)
	defer cancel()
	class, method := HostUnreachable, t.runner.Nodes.Remote()
	m, err := method.Dial(opening, h)
	if err == nil {
		defer m.Close()
		class, spec.Dir = NodeLost, here
		if t.settings.Folder != "" {
			spec.Dir = ssh.Folder(t.settings.Folder)
			err = method.Sync(opening, m, source, spec.Dir)
		}
	}
	if err == nil {
		var exit process.Exit
		exit, err = execute(ctx, m.Client, spec, t.out.out, patience, started)
		if err == nil && !exit.Lost || err != nil && !errors.Is(err, agent.ErrLost) {
			return exit, err
		}
		if err == nil {
			err = fmt.Errorf("host %s: %s", node, exit)
		}
	}
	if ctx.Err() == nil {
		t.runner.Nodes.Suspect(node, nodes.WithoutLaunch(err))
	}
	return process.Exit{}, fail(class, nodes.WithoutLaunch(err))
}
