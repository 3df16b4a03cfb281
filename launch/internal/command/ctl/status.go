package ctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/metrics"
)

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

// look asks the scheduler for something and writes it.
func look(c *cli.Context, op string, answer control.Answer, write func(w io.Writer, k *controller) error) error {
	if c.NArg() > 0 {
		return command.Usagef("ctl %s: got %q, want flags only", op, c.Args().First())
	}
	k, err := findJob(c, record.Find)
	if err != nil {
		return err
	}
	raw, err := k.ask(c.Context, control.Request{Op: op}, answer)
	if err != nil {
		return err
	}
	if !c.Bool("json") {
		return write(c.App.Writer, k)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return fmt.Errorf("launch: ctl %s: %w", op, err)
	}
	b.WriteByte('\n')
	_, err = b.WriteTo(c.App.Writer)
	return err
}

// writeStatus writes the tables of a job.
func writeStatus(w io.Writer, k *controller, s control.Status, speeds map[uint64]speed, now time.Time) error {
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
	nodes := metrics.Table{Columns: []string{"role", "rank", "host", "pid", "state", "epoch", "step", "examples/s", "loss", "heartbeat"}}
	for _, n := range s.Nodes {
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
		nodes.Row(n.Role, rank, n.Host, n.PID, stateWords(n.State), epoch, step, examples, loss, ago(time.Duration(n.HeardMillis)*time.Millisecond)+" ago")
	}
	hosts := metrics.Table{Columns: []string{"host", "status", "reason"}}
	for _, h := range s.Hosts {
		hosts.Row(h.Host, h.Status, h.Reason)
	}
	servers := metrics.Table{Columns: []string{"server", "host", "status", "shards", "values", "backups", "incoming"}}
	for _, x := range s.Servers {
		servers.Row(fmt.Sprint(x.Rank), x.Host, stateWords(x.Status), x.Shards, x.Values, x.Backups, x.Filling)
	}
	for _, t := range []struct {
		metrics.Table
		rows int
	}{{nodes, len(s.Nodes)}, {servers, len(s.Servers)}, {hosts, len(s.Hosts)}} {
		if t.rows == 0 {
			continue
		}
		fmt.Fprintln(w)
		if _, err := t.WriteTo(w); err != nil {
			return err
		}
	}
	if s.LeftOut > 0 {
		fmt.Fprintf(w, "\n%d more nodes are not shown\n", s.LeftOut)
	}
	return nil
}

// stateWords are the words of tables for the states of a process or of the rank of a server.
func stateWords(state string) string {
	switch state {
	case control.NodeCounts, control.RankHere:
		return "in the job"
	case control.NodeReady:
		return "ready to join"
	case control.RankComing:
		return "starting"
	}
	return strings.ToLower(state)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// ago is a time as people say it.
func ago(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
