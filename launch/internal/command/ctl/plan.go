package ctl

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/scheduler"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/metrics"
)

// planCommand is `launch ctl plan`. The plan is made by the scheduler's own function, so that what
// is shown is what a job would do.
func planCommand() *cli.Command {
	return &cli.Command{
		Name:      "plan",
		Usage:     "show how the keys of a file would be placed on servers",
		ArgsUsage: "FILE.safetensors",
		Description: `Shows where the scheduler of a job with that many servers would place the keys of a safetensors file. It needs no running job:

   launch ctl plan --servers 4 checkpoints/step-00001000/store.safetensors
   launch ctl plan --servers 8 --keys model.safetensors

In a file that the store has saved (store.safetensors of a checkpoint) the keys are the store's, and a key is not cut if its optimizer
needs it whole; in any other file each tensor is a key. Bytes count the values alone; each slot of the optimizer's state takes as many
bytes again. A job places keys in the order in which its workers initialise them, and this command in the file's
order: a small key may lie on another server; the balance is the same.`,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "servers", Aliases: []string{"s"}, Value: 2, Usage: "`NUMBER` of servers"},
			&cli.BoolFlag{Name: "keys", Usage: "list the keys, too, each with the servers of its shards"},
		},
		HideHelpCommand: true,
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return command.Usage(fmt.Errorf("launch ctl plan: %w", err))
		},
		Action: func(c *cli.Context) error {
			switch {
			case c.NArg() != 1:
				return command.Usagef("ctl plan: got %d files, want one: launch ctl plan --servers 4 model.safetensors", c.NArg())
			}
			if err := command.CheckNumber("ctl plan: --servers", c.Int("servers"), 1, cluster.MaxNodes, ""); err != nil {
				return err
			}
			keys, err := kvstore.Declarations(c.Args().First())
			if err != nil {
				return fmt.Errorf("launch: ctl plan: %w", err)
			}
			plans, err := scheduler.PlanKeys(c.Int("servers"), declared(keys))
			if err != nil {
				return fmt.Errorf("launch: ctl plan: %w", err)
			}
			return writePlan(c.App.Writer, c.Int("servers"), plans, c.Bool("keys"))
		},
	}
}

// declared are keys as the scheduler is asked for them.
func declared(keys []kvstore.Declaration) []wire.Declare {
	forms := map[string]uint8{"dense": wire.FormDense, "rows": wire.FormRows, "open": wire.FormOpen}
	list := make([]wire.Declare, len(keys))
	for i, k := range keys {
		list[i] = wire.Declare{Name: k.Name, Form: forms[k.Form], Rule: wire.RuleOptimizer, Size: k.Size, RowLen: k.RowLen, Table: k.Table, Whole: k.Whole}
		if k.Average {
			list[i].Rule = wire.RuleAverage
		}
	}
	return list
}

// writePlan writes what each server holds, and with keys where each key lies.
func writePlan(w io.Writer, servers int, plans []*wire.KeyPlan, keys bool) error {
	type share struct {
		keys, shards int
		bytes        int64
	}
	on := make([]share, servers)

	// All values are float32.
	total := int64(0)

	// The table of keys is made in any case, since both tables need the same walk over the
	// plans.
	list := metrics.Table{Columns: []string{"key", "bytes", "shards", "servers"}}
	for _, k := range plans {
		where := make([]int, servers)
		for _, s := range k.Shards {
			where[s.Server]++
			on[s.Server].shards++
			on[s.Server].bytes += 4 * int64(s.Length)
			total += 4 * int64(s.Length)
		}

		// text names the servers that have a shard of the key.
		text, holders := "", 0
		for i, n := range where {
			if n > 0 {
				on[i].keys++
				holders++
				text += fmt.Sprintf(" %d", i)
			}
		}
		if holders == servers && servers > 1 {
			text = " all"
		}
		list.Row(k.Name, 4*int64(k.Size), len(k.Shards), text[1:])
	}
	mean := float64(total) / float64(servers)
	table := metrics.Table{Columns: []string{"server", "keys", "shards", "bytes", "of the mean"}}
	most := int64(0)
	for i, s := range on {
		table.Row(fmt.Sprint(i), s.keys, s.shards, s.bytes, fmt.Sprintf("%.3f", float64(s.bytes)/max(mean, 1)))
		most = max(most, s.bytes)
	}
	if keys {
		if _, err := list.WriteTo(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	if _, err := table.WriteTo(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s, %d bytes, on %s; max/mean %.3f\n", plural.Of(len(plans), "key"), total, plural.Of(servers, "server"), float64(most)/max(mean, 1))
	return err
}
