package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// A peer is another program whose processes play the works.
//
// Its command is started for each process of a job, with the same variables as our own processes: DMLC_ROLE, DMLC_PS_ROOT_URI,
// DMLC_PS_ROOT_PORT (0 for the scheduler, which chooses one), DMLC_NUM_WORKER, DMLC_NUM_SERVER, DMLC_NODE_HOST, PARAGON_RANK.
// The scheduler's first line of output is the address it listens at. PARAGON_BENCH_PLAN has a line for each work, in order:
//
//	name samples passes pull whole values...
//
// where pull and whole are 0 or 1 and the values are those of each key. A worker plays three samples to get warm and waits for
// the others; then it writes a line {"Work":name,"Begin":true}, plays the samples, and writes {"Work":name,"Took":[...],
// "First":[...]} with each sample's nanoseconds; or {"Work":name,"Skip":true} if it does not play this work. All processes
// end by themselves after the last work, and at once when their standard input ends.
// Works of rows are not given to peers.
type peer struct {
	name    string
	command []string
}

func readPeer(text string) (peer, error) {
	name, command, _ := strings.Cut(text, "=")
	p := peer{name: name, command: strings.Fields(command)}
	if name == "" || len(p.command) == 0 || strings.ContainsAny(name, "/ \t") {
		return p, fmt.Errorf("got %q, want name=command", text)
	}
	if slices.Contains(transportNames, name) {
		return p, fmt.Errorf("got %q, which is a transport of our own", name)
	}
	return p, nil
}

// plan tells the works to a peer.
func plan(names []string, scale float64) (string, error) {
	var b strings.Builder
	for _, name := range names {
		w, err := findWork(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s %d %d %d %d", w.name, w.scaled(scale), w.passes, digit(w.pull), digit(w.whole))
		for _, n := range w.keys {
			fmt.Fprintf(&b, " %d", n)
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

func digit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A gain says how many times as fast ours was as a peer.
type gain struct {
	least, median, greatest float64 // over the turns, of their medians
	cpu                     float64 // by CPU time, over all turns; 0 where the system does not tell it
	turns                   int
}

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

// ratios compares each of our transports with each peer, as lines of Go's benchmarks and as a table.
func (r *report) ratios(transports []string, peers []peer) (lines, table string) {
	isPeer := func(name string) bool { return slices.ContainsFunc(peers, func(p peer) bool { return p.name == name }) }
	var l, b strings.Builder
	fmt.Fprintf(&b, "Times as fast as the peer: least / median / greatest over the turns; by CPU time behind the bar.\n")
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "work\tworkers × servers\tpeer\tits median\t%s\t\n", strings.Join(transports, "\t"))
	for _, name := range r.order {
		theirs := r.all[name]
		if !isPeer(theirs.transport) {
			continue
		}
		fmt.Fprintf(t, "%s\t%d × %d\t%s\t%v\t", theirs.work.name, theirs.job.workers, theirs.job.servers, theirs.transport, rounded(median(theirs.took)))
		for _, transport := range transports {
			ours := *theirs
			ours.transport = transport
			g := gainOf(r.all[ours.name()], theirs)
			fmt.Fprintf(t, "%.2f / %.2f / %.2f | %.2f\t", g.least, g.median, g.greatest, g.cpu)
			fmt.Fprintf(&l, "BenchmarkRatio/%s/peer=%s %d %.2f x %.2f x-min %.2f x-max %.2f cpu-x\n", ours.name(), theirs.transport, g.turns, g.median, g.least, g.greatest, g.cpu)
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	return l.String(), b.String()
}
