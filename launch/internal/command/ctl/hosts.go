package ctl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/launch/internal/command"
)

// addCommand is `launch ctl add`.
func addCommand() *cli.Command {
	return &cli.Command{
		Name:      "add",
		Usage:     "add a host to a running job",
		ArgsUsage: "HOST [slots=N] [gpus=N] [cpus=N]",
		Description: `Starts a worker on HOST (with slots=N, N workers). The job must have been started with --elastic-training-enabled:

   launch ctl add d3
   launch ctl add --wait me@10.0.0.7:2222 slots=4

launch connects to the host, copies the job's folder (--sync-dst-dir) and prepares the host (--prepare-data). The host joins when its workers are
ready; training continues meanwhile. --wait waits until it has joined, and ends with 1 if it cannot. The host is also added to the
file host_worker.`,
		Flags:  jobFlags(waitFlag("has joined")),
		Action: func(c *cli.Context) error { return changeHost(c, control.OpAdd) },
	}
}

// removeCommand is `launch ctl remove`.
func removeCommand() *cli.Command {
	return &cli.Command{
		Name:      "remove",
		Usage:     "remove a host from a running job",
		ArgsUsage: "HOST",
		Description: `Asks all workers on HOST to leave the job:

   launch ctl remove d3

They take part up to the next step and end with exit code 0; the other workers take over their data. Servers on the host stay.`,
		Flags:  jobFlags(waitFlag("has left")),
		Action: func(c *cli.Context) error { return changeHost(c, control.OpRemove) },
	}
}

// waitFlag makes --wait. Without it a command ends as soon as the scheduler has taken the request,
// which may still fail: the scheduler's answer says that the job will try.
func waitFlag(until string) cli.Flag {
	return &cli.BoolFlag{Name: "wait", Usage: "wait until the host " + until, DisableDefaultText: true}
}

// changeHost is `launch ctl add` and `launch ctl remove`.
func changeHost(c *cli.Context, op string) error {
	h, err := hostArgument(c, op)
	if err != nil {
		return err
	}
	k, err := findJob(c, record.FindToChange)
	if err != nil {
		return err
	}

	// The events that --wait looks for are those after this status, so that none is missed
	// between the request and the first wait.
	var before control.Status
	if _, err := k.ask(c.Context, control.Request{Op: control.OpStatus}, &before); err != nil {
		return err
	}
	h = asKnown(h, &before)
	if _, err := k.ask(c.Context, control.Request{Op: op, Host: h.String(), Slots: h.Slots, GPUs: h.GPUs, CPUs: h.CPUs}, &control.Done{}); err != nil {
		return err
	}
	if c.Bool("wait") {
		return k.await(c, h, before.LastEvent)
	}
	what := "is being added; it joins when its workers are ready"
	if op == control.OpRemove {
		what = "is being removed; its workers leave at the next step"

		// A host without a worker that counts has nobody to wait for, unless the status was
		// too long to name all nodes.
		in := func(n control.Node) bool {
			return n.Role == control.Worker && n.Host == h.String() && (n.State == control.NodeCounts || n.State == control.NodeLeaving)
		}
		if before.LeftOut == 0 && !slices.ContainsFunc(before.Nodes, in) {
			what = "was removed; it had no worker in the job"
		}
	}
	fmt.Fprintf(c.App.Writer, "host %s %s. See launch ctl status.\n", h, what)
	return nil
}

// asKnown spells a host as the job does, which knows hosts by their text.
func asKnown(h hosts.Host, s *control.Status) hosts.Host {
	for _, known := range s.Hosts {
		if o, err := hosts.ParseHost(known.Host); err == nil && o.Same(h) {
			h.Name = o.Name
			return h
		}
	}
	return h
}

// hostArgument reads the host of the command op. To add a host takes a line of a hosts file, and to
// remove one its name alone.
func hostArgument(c *cli.Context, op string) (hosts.Host, error) {
	args := c.Args().Slice()
	switch {
	case len(args) == 0:
		return hosts.Host{}, command.Usagef("ctl %s: no host is given; write launch ctl %s HOST", op, op)
	case len(args) > 1 && (op != "add" || !strings.Contains(args[1], "=")):
		return hosts.Host{}, command.Usagef("ctl %s: got %q, want one host; put flags before it", op, args)
	}
	h, err := hosts.ParseLine(args)
	if err != nil {
		return hosts.Host{}, command.Usagef("ctl %s: %v", op, err)
	}
	return h, nil
}

// await waits until what was asked for has happened to the host.
func (k *controller) await(c *cli.Context, h hosts.Host, after uint64) error {
	for {
		var got control.Events
		if _, err := k.ask(c.Context, control.Request{Op: control.OpEvents, After: after, WaitMillis: 10_000}, &got); err != nil {
			return err
		}
		for _, e := range got.Events {
			after = max(after, e.Number)
			if e.Host != h.String() {
				continue
			}
			switch e.Action {
			case control.Added, control.Removed:
				fmt.Fprintf(c.App.Writer, "host %s %s\n", h, e.Action)
				return nil
			case control.HostFailed:
				return fmt.Errorf("launch: host %s FAILED: %s", h, e.Reason)
			}
		}
		if got.Phase != control.Running && got.Phase != control.Forming {
			return fmt.Errorf("launch: job %s has %s", k.Job, got.Phase)
		}
	}
}
