package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/paragon-train/paragon/bench/internal/machine"
)

// writeTable writes all results for people, with what they were measured by.
func writeTable(path string, here machine.Machine, note string, took time.Duration, b *bench) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	defer func() { err = errors.Join(err, w.Flush()) }()
	fmt.Fprintf(w, "Written by `bench/peers/torch.sh` at commit %s in %v, at most %d × %d spells of %v s for each row, on %s.\n",
		machine.Commit(), took.Round(time.Second), b.processes, b.turns, b.seconds, here)
	if note != "" {
		fmt.Fprintf(w, "%s.\n", note)
	}
	fmt.Fprintf(w, "Examples a second: min / median / max. Ratio of medians; in brackets that of neighbouring spells, min / median / max.\n")
	fmt.Fprintf(w, "Others: the largest share of the cores that other processes took during a spell that counts; above %.2f the machine was busy, which slows\nthreads that wait by spinning, PyTorch's, far more than ours, and only the ratio by CPU time on one thread means something; a row that was\ndisturbed has no ratio.\n", quietShare)
	if b.compile {
		fmt.Fprintf(w, "PyTorch: the better of eager and torch.compile, which are measured apart.\n")
	}
	fmt.Fprintln(w)
	fmt.Fprintf(w, "| model | batch | threads | dtype | Paragon | PyTorch | ratio | by CPU time | memory, MB: plan, Paragon, PyTorch | ratio | others |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range b.results {
		if r.processes > 1 {
			continue
		}
		if r.late != "" {
			fmt.Fprintf(w, "| %s | %d | %d | %s | %s | | | | | | |\n", r.model, r.batch, r.threads, r.dtype, r.late)
			continue
		}
		memory := "not measured | "
		if r.peerPeak > 0 {
			memory = fmt.Sprintf("%.0f, %.0f, %.0f | %.2f", r.plan/1e6, r.oursPeak/1e6, r.peerPeak/1e6, r.oursPeak/r.peerPeak)
		}
		lo, mid, hi := pairs(r.ours, r.peer)
		fmt.Fprintf(w, "| %s | %d | %d | %s | %s | %s | %.2f (%.2f / %.2f / %.2f) | %.2f | %s | %.2f |\n", r.model, r.batch, r.threads, r.dtype,
			spread(r.ours), r.spreadOfPeer(), ratio(wall, r.ours, r.peer), lo, mid, hi, ratio(cpu, r.ours, r.peer), memory, r.others())
	}
	fmt.Fprintf(w, "\nTwo processes of one thread against one:\n\n| model | batch | program | one process | two | ratio |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, r := range b.results {
		if r.processes == 1 {
			continue
		}
		if r.late != "" {
			fmt.Fprintf(w, "| %s | %d | %s | | | |\n", r.model, r.batch, r.late)
			continue
		}
		for _, p := range []struct {
			name       string
			one, twice []rate
		}{{"Paragon, launch -n 2 -s 2", r.oursAlone, r.ours}, {"PyTorch, DDP over gloo", r.peerAlone, r.peer}} {
			lo, mid, hi := pairs(p.twice, p.one)
			fmt.Fprintf(w, "| %s | %d | %s | %s | %s | %.2f (%.2f / %.2f / %.2f) |\n", r.model, r.batch, p.name, spread(p.one), spread(p.twice), ratio(wall, p.twice, p.one), lo, mid, hi)
		}
	}
	return nil
}

// spreadOfPeer is the peer's spread, and that of the other way to run it.
func (r *result) spreadOfPeer() string {
	switch {
	case r.uncompiled != "":
		return spread(r.eager) + " (torch.compile: " + r.uncompiled + ")"
	case r.row.peer != "":
		return r.row.peer + " " + spread(r.peer)
	case len(r.compiled) == 0:
		return spread(r.peer)
	}
	return fmt.Sprintf("eager %s, compiled %s", spread(r.eager), spread(r.compiled))
}

func spread(r []rate) string {
	x := of(wall, r)
	return fmt.Sprintf("%s / %s / %s", figure(slices.Min(x)), figure(median(x)), figure(slices.Max(x)))
}
