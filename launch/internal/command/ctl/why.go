package ctl

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/metrics"
)

// whyCommand is `launch ctl why`.
func whyCommand() *cli.Command {
	return &cli.Command{
		Name:  "why",
		Usage: "show which worker the others wait for",
		Description: `Shows the worker that the others wait for in each round, if there is one, and for how long; what each node waits for; and the workers that are
behind the others and hold up rounds:

   launch ctl why
   launch ctl why --json | jq '.slow[] | {rank, host, share, gap, cause}'`,
		Flags: jobFlags(&cli.BoolFlag{Name: "json", Usage: "write everything as JSON", DisableDefaultText: true}),
		Action: func(c *cli.Context) error {
			var y control.Why
			return look(c, control.OpWhy, &y, func(w io.Writer, k *controller) error { return writeWhy(w, y) })
		},
	}
}

// writeWhy writes who waits for whom.
func writeWhy(w io.Writer, y control.Why) error {
	for _, s := range y.Slow {
		fmt.Fprintf(w, "%s.\n", s)
	}
	if len(y.Waits) == 0 {
		fmt.Fprintln(w, "No one is waiting at the scheduler, and no push or pull has waited for 5 s.")
	} else {
		t := metrics.Table{Columns: []string{"who", "waits", "at", "for"}}
		for _, x := range y.Waits {
			t.Row(x.Who, ago(time.Duration(x.Seconds*float64(time.Second))), x.At, x.For)
		}
		if _, err := t.WriteTo(w); err != nil {
			return err
		}
	}
	for i, b := range y.Behind {
		if i == 0 {
			fmt.Fprintln(w, "\nRounds wait for these workers, which are behind the newest step, slowest first:")
		}
		fmt.Fprintf(w, "  %s\n", b)
	}
	return nil
}
