package ctl

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/launch/internal/command"
)

// addServerCommand is `launch ctl add-server`.
func addServerCommand() *cli.Command {
	return &cli.Command{
		Name:      "add-server",
		Usage:     "add a server to a running job",
		ArgsUsage: "[HOST]",
		Description: `Starts one more server, on HOST or on the host with the fewest servers. The job must have been started with --backups 1:

   launch ctl add-server
   launch ctl add-server --wait d3

Shards move to it during training until all servers hold about as much; launch ctl status shows how much each one holds. --wait waits
until the server has joined, and ends with 1 if it cannot.`,
		Flags:  jobFlags(&cli.BoolFlag{Name: "wait", Usage: "wait until the server has joined", DisableDefaultText: true}),
		Action: addServer,
	}
}

// removeServerCommand is `launch ctl remove-server`.
func removeServerCommand() *cli.Command {
	return &cli.Command{
		Name:      "remove-server",
		Usage:     "remove a server from a running job",
		ArgsUsage: "RANK",
		Description: `Moves the shards of server RANK to the servers that have their backups, and stops it. Training continues meanwhile. The job must have been started
with --backups 1:

   launch ctl remove-server 2

The command waits for shards that are moving. It ends when all shards have complete backups again, so that the job survives the next
loss.`,
		Flags:  jobFlags(),
		Action: removeServer,
	}
}

// addServer asks for one more server. The scheduler chooses its rank, by which --wait knows the
// events of this server from those of others.
func addServer(c *cli.Context) error {
	args, host := c.Args().Slice(), ""
	if len(args) > 1 {
		return command.Usagef("ctl add-server: got %q, want one host at most; put flags before it", args)
	}
	if len(args) == 1 {
		h, err := hosts.ParseHost(args[0])
		if err != nil {
			return command.Usagef("ctl add-server: %v", err)
		}
		host = h.String()
	}
	k, err := findJob(c, record.FindToChange)
	if err != nil {
		return err
	}

	// As in changeHost, the number of the newest event is taken before the request.
	var before control.Status
	if _, err := k.ask(c.Context, control.Request{Op: control.OpStatus}, &before); err != nil {
		return err
	}
	var done control.Done
	if _, err := k.ask(c.Context, control.Request{Op: control.OpAddServer, Host: host}, &done); err != nil {
		return err
	}
	if !c.Bool("wait") {
		fmt.Fprintf(c.App.Writer, "server %d is being started. See launch ctl status.\n", done.Rank)
		return nil
	}
	for after := before.LastEvent; ; {
		var got control.Events
		if _, err := k.ask(c.Context, control.Request{Op: control.OpEvents, After: after, WaitMillis: 10_000}, &got); err != nil {
			return err
		}
		for _, e := range got.Events {
			after = max(after, e.Number)
			switch {
			case e.Role != control.Server || e.Rank != done.Rank:
			case e.Action == control.ServerAdded:
				fmt.Fprintf(c.App.Writer, "server %d on %s ADDED\n", done.Rank, e.Host)
				return nil
			case e.Action == control.ServerFailed, e.Action == control.ServerRemoved:
				return fmt.Errorf("launch: server %d could not be added: %s", done.Rank, e.Reason)
			}
		}
		if got.Phase != control.Running {
			return fmt.Errorf("launch: job %s has %s", k.Job, got.Phase)
		}
	}
}

// movesFor is how long shards that move are waited for.
const movesFor = 2 * time.Minute

// removeServer asks for the removal of a server, again and again while shards that are moving
// forbid it, and then waits for the backups: only then may the next server be lost.
func removeServer(c *cli.Context) error {
	if c.NArg() != 1 {
		return command.Usagef("ctl remove-server: got %q, want the rank of one server; launch ctl status shows them", c.Args().Slice())
	}
	rank, err := strconv.Atoi(c.Args().First())
	if err != nil || rank < 0 || rank >= cluster.MaxNodes {
		return command.Usagef("ctl remove-server: got %q, want a server's rank, 0 to %d", c.Args().First(), cluster.MaxNodes-1)
	}
	k, err := findJob(c, record.FindToChange)
	if err != nil {
		return err
	}

	// The scheduler says "not yet" while shards move. Any other refusal is final.
	err = askLater(c.Context, movesFor, func() error {
		_, err := k.ask(c.Context, control.Request{Op: control.OpRemoveServer, Rank: rank}, &control.Done{})
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "server %d REMOVED\n", rank)
	return k.awaitBackups(c.Context, c.App.Writer)
}

// awaitBackups waits until no backup is being filled, while the job runs, and writes the job's
// warnings.
func (k *controller) awaitBackups(ctx context.Context, w io.Writer) error {
	for begin := time.Now(); ; {
		var s control.Status
		if _, err := k.ask(ctx, control.Request{Op: control.OpStatus}, &s); err != nil {
			return err
		}

		// A backup that is being filled cannot take over yet.
		filling := 0
		for _, x := range s.Servers {
			filling += x.Filling
		}
		switch {
		case filling == 0 || s.Phase != control.Running:
			for _, text := range s.Warnings {
				fmt.Fprintf(w, "warning: %s\n", text)
			}
			return nil
		case time.Since(begin) > movesFor:
			return fmt.Errorf("launch: job %s: after %s %d shards still have no whole backup", k.Job, movesFor, filling)
		}
		select {
		case <-time.After(laterEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
