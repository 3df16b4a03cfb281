package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// A gain says how many times as fast ours was as a peer.
type gain struct {
	// least, median and greatest are of the medians of the turns.
	least, median, greatest float64
	// cpu is the gain by CPU time over all turns; 0 where the system does not tell it.
	cpu   float64
	turns int
}

// gainOf compares turn by turn: what else runs on the machine meets both programs of a turn.
func gainOf(ours, theirs *measured) gain {
	n := min(len(ours.turns), len(theirs.turns))
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(theirs.turns[i]) / float64(ours.turns[i])
	}
	slices.Sort(x)
	g := gain{least: x[0], median: (x[(n-1)/2] + x[n/2]) / 2, greatest: x[n-1], turns: n}
	if ours.cpu > 0 {
		g.cpu = theirs.cpuPerOperation() / ours.cpuPerOperation()
	}
	return g
}

// compared says whether a row of ours is held against another's: against peers all are, against our
// own TCP that with encryption.
func compared(ours, theirs string) bool {
	if theirs == "tcp" {
		return ours == secure
	}
	_, own := ways[theirs]
	return !own
}

// ratios compares each of our transports with each peer, as lines of Go's benchmarks and as a
// table. A row that took longer than its time says so.
func (r *report) ratios(transports []string) (lines, table string) {
	var l, b strings.Builder
	fmt.Fprintf(&b, "Times as fast as the peer: least / median / greatest over the turns; by CPU time behind the bar.\n")
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "work\tworkers × servers\tpeer\tits median\t%s\t\n", strings.Join(transports, "\t"))
	for _, name := range r.order {
		theirs := r.all[name]
		var cells []string
		some := false
		for _, transport := range transports {
			ours := r.all[theirs.with(transport).name()]
			cell := ""
			switch {
			case ours == nil || ours.skipped() || theirs.skipped() || !compared(transport, theirs.transport):
			case len(ours.turns) == 0 || len(theirs.turns) == 0:
				cell, some = "-", true
				late := ours.late
				if len(ours.turns) > 0 {
					late = theirs.late
				}
				fmt.Fprintf(&l, "# BenchmarkRatio/%s/peer=%s: %s\n", ours.name(), theirs.transport, late)
			default:
				g := gainOf(ours, theirs)
				cell, some = fmt.Sprintf("%.2f / %.2f / %.2f | %.2f", g.least, g.median, g.greatest, g.cpu), true
				fmt.Fprintf(&l, "BenchmarkRatio/%s/peer=%s %d %.2f x %.2f x-min %.2f x-max %.2f cpu-x %d ours-ns/op %d peer-ns/op\n", ours.name(), theirs.transport, g.turns,
					g.median, g.least, g.greatest, g.cpu, median(ours.took), median(theirs.took))
			}
			cells = append(cells, cell)
		}
		if some {
			fmt.Fprintf(t, "%s\t%d × %d\t%s\t%s\t%s\t\n", theirs.work.name, theirs.job.workers, theirs.job.servers, theirs.transport, theirs.middle(), strings.Join(cells, "\t"))
		}
	}
	t.Flush()
	return l.String(), b.String()
}
