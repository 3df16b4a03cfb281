package ctl

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/launch/internal/top"
	"github.com/paragon-train/paragon/metrics"
)

// writeTop is what `launch top --once` writes.
func writeTop(w io.Writer, d *top.Document) error {
	t, j := d.Telemetry, &d.Rates.Job
	workerCount, serverCount := d.Rates.Present()
	fmt.Fprintf(w, "job %s: %s, generation %d, %s, %s\n", t.Job, t.Phase, t.Generation, plural.Of(workerCount, "worker"), plural.Of(serverCount, "server"))
	fmt.Fprintf(w, "%s steps/s, %s examples/s, epoch %s, step %s, loss %s\n", number(j.Steps), number(j.Examples), number(j.Epoch), count(j.Step), number(j.Loss))
	for _, s := range t.Slow {
		fmt.Fprintf(w, "%s.\n", s)
	}
	workers := metrics.Table{Columns: []string{"rank", "host", "pid", "state", "epoch", "step", "examples/s", "step time", "compute", "wait", "data", "loss", "came last", "late by"}}
	for _, x := range d.Rates.Workers {
		workers.Row(x.Rank, x.Host, x.PID, stateWords(x.State), known(x.Epoch), known(x.Step), known(x.Examples), seconds(x.StepTime), seconds(x.Compute), seconds(x.Wait), seconds(x.Data),
			known(x.Loss), share(x.Last), seconds(x.Gap))
	}
	servers := metrics.Table{Columns: []string{"server", "host", "pid", "state", "rounds/s", "round", "waiting", "gradients held", "values", "sent/s", "received/s"}}
	for _, x := range d.Rates.Servers {
		servers.Row(x.Rank, x.Host, x.PID, stateWords(x.State), known(x.Rounds), seconds(x.RoundTime), known(x.Waiting), top.Bytes(x.Held), top.Bytes(x.Values), top.Bytes(x.Sent), top.Bytes(x.Received))
	}
	waits := metrics.Table{Columns: []string{"who", "waits", "at", "for"}}
	for _, x := range d.Waits {
		waits.Row(x.Who, ago(time.Duration(x.Seconds*float64(time.Second))), x.At, x.For)
	}
	if err := writeTables(w, []filled{{workers, len(d.Rates.Workers)}, {servers, len(d.Rates.Servers)}, {waits, len(d.Waits)}}); err != nil {
		return err
	}
	if t.LeftOut > 0 {
		fmt.Fprintf(w, "\n%s did not fit into the answer\n", plural.Of(t.LeftOut, "more node"))
	}
	return nil
}

// known is a number of a table; nil: it is not known.
func known(x control.Number) any {
	if v := float64(x); !math.IsNaN(v) {
		return v
	}
	return nil
}

// seconds is a time of a table; nil: it is not known, or too long to be one.
func seconds(x control.Number) any {
	if v := float64(x); v >= 0 && v < 1e9 {
		return time.Duration(v * 1e9)
	}
	return nil
}

// share is a part of a whole; nil: it is not known.
func share(x control.Number) any {
	if v := float64(x); !math.IsNaN(v) {
		return metrics.Percent(v)
	}
	return nil
}

// count is a number of whole things, with all its digits.
func count(x control.Number) string {
	if v := float64(x); !math.IsNaN(v) {
		return fmt.Sprintf("%.0f", v)
	}
	return "-"
}

// number is one with four digits, or a dash where it is not known.
func number(x control.Number) string {
	if v := float64(x); !math.IsNaN(v) {
		return fmt.Sprintf("%.4g", v)
	}
	return "-"
}
