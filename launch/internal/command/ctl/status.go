package ctl

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/metrics"
)

// statusCommand is `launch ctl status`.
func statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "show the members of a job and the state of its hosts",
		Description: `Shows the processes of a job, how far each worker is, its examples a second within the last minute and its newest loss, and the
status of each host of workers: ADD_QUEUED, ADDED, REMOVAL_QUEUED, REMOVED or FAILED, with the reason:

   launch ctl status
   launch ctl status --json | jq '.hosts[] | select(.status == "FAILED")'

Run it on the machine where launch runs, as the same user, or with --join, as launch ctl --help says.`,
		Flags: jobFlags(&cli.BoolFlag{Name: "json", Usage: "write everything as JSON", DisableDefaultText: true}),
		Action: func(c *cli.Context) error {
			var s control.Status
			return look(c, control.OpStatus, &s, func(w io.Writer, k *controller) error {
				// Without an answer the rest is known, and is shown.
				speeds, _ := askSpeeds(func(q control.Request, answer control.Answer) error {
					_, err := k.ask(c.Context, q, answer)
					return err
				})
				return writeStatus(w, k, s, speeds, time.Now())
			})
		},
	}
}

// writeStatus writes what the job as a whole does, and then the tables of its processes, its ranks
// of servers and its hosts.
func writeStatus(w io.Writer, k *controller, s control.Status, speeds map[uint64]speed, now time.Time) error {
	writeState(w, k, &s, now)
	hosts := metrics.Table{Columns: []string{"host", "status", "reason"}}
	for _, h := range s.Hosts {
		hosts.Row(h.Host, h.Status, h.Reason)
	}
	servers := metrics.Table{Columns: []string{"server", "host", "status", "shards", "values", "backups", "incoming"}}
	for _, x := range s.Servers {
		servers.Row(fmt.Sprint(x.Rank), x.Host, stateWords(x.Status), x.Shards, x.Values, x.Backups, x.Filling)
	}
	err := writeTables(w, []filled{{nodeTable(s.Nodes, speeds), len(s.Nodes)}, {servers, len(s.Servers)}, {hosts, len(s.Hosts)}})
	if err == nil && s.LeftOut > 0 {
		fmt.Fprintf(w, "\n%d more nodes are not shown\n", s.LeftOut)
	}
	return err
}

// writeState writes the lines above the tables: what the job is, and what it waits for or is about
// to become. A line stands only where there is something to say.
func writeState(w io.Writer, k *controller, s *control.Status, now time.Time) {
	if s.Journal != "" {
		fmt.Fprintf(w, "warning: %s\n", s.Journal)
	}
	fmt.Fprintf(w, "job %s: %s%s, %s, generation %d, since %s in %s: %s\n", s.Job, s.Phase, because(s.Reason), plural.Of(s.Workers, "worker"), s.Generation,
		ago(now.Sub(k.Started)), k.Dir, strings.Join(k.Command, " "))
	if len(s.Waiting) > 0 {
		fmt.Fprintf(w, "waiting for %s\n", strings.Join(s.Waiting, ", "))
	}
	for _, text := range s.Warnings {
		fmt.Fprintf(w, "warning: %s\n", text)
	}
	if s.Adaptation != nil {
		fmt.Fprintf(w, "adapts: %s\n", s.Adaptation)
	}
	if x := s.Scale; x != nil {
		where := ""
		if len(x.Placement) > 0 {
			where = " (" + control.PlacementText(x.Placement) + ")"
		}
		fmt.Fprintf(w, "scale: %d wanted%s, %d present, %s%s\n", x.Workers, where, x.Present, strings.ReplaceAll(x.State, "_", " "), because(x.Reason))
	}
	if g := s.Change; g != nil {
		fmt.Fprintf(w, "change %d is pending for %s: %s", g.Number, ago(time.Duration(g.Seconds*float64(time.Second))), strings.Join(g.Causes, "; "))
		if g.WaitsFor != "" {
			fmt.Fprintf(w, "; it waits for %s", g.WaitsFor)
		}
		fmt.Fprintln(w)
	}
}

// nodeTable has a row for each process. Servers have no epoch and no step, a process that is not in
// the job has no rank, and speeds are missing where the scheduler has not been told.
func nodeTable(nodes []control.Node, speeds map[uint64]speed) metrics.Table {
	t := metrics.Table{Columns: []string{"role", "rank", "host", "pid", "state", "epoch", "step", "examples/s", "loss", "heartbeat"}}
	for _, n := range nodes {
		rank, epoch, step := any(n.Rank), any(n.Epoch), any(n.Step)
		if n.Rank < 0 {
			rank = nil
		}
		if n.Role != control.Worker {
			epoch, step = nil, nil
		}
		var examples, loss any
		if x, ok := speeds[n.Node]; ok {
			examples, loss = x.cells()
		}
		t.Row(n.Role, rank, n.Host, n.PID, stateWords(n.State), epoch, step, examples, loss, ago(time.Duration(n.HeardMillis)*time.Millisecond)+" ago")
	}
	return t
}
