package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// measureScaling compares two processes of one thread with one, for each program: launch with two workers and two servers
// against a process without a store; DistributedDataParallel over gloo against a process without it.
func (b *bench) measureScaling(ctx context.Context, r row) (result, error) {
	res := result{row: r}
	model, batch := r.model, strconv.Itoa(r.batch)
	alone := r
	alone.processes = 1
	for range b.processes {
		ours, err := b.spellAlone(ctx, b.ourServe(alone), r.batch)
		if err != nil {
			return res, err
		}
		// As many steps as take about as long as all spells of a process do in other rows.
		steps := max(3, int(ours.wall/float64(r.batch)*b.seconds*float64(b.turns)))
		pair, err := b.spellOfJob(ctx, r, 2, b.launch, "-n", "2", "-s", "2", "--", b.ours, "train", "--model", model, "--batch", batch, "--threads", "1", "--steps", strconv.Itoa(steps))
		if err != nil {
			return res, err
		}
		res.oursAlone, res.ours = append(res.oursAlone, ours), append(res.ours, pair)

		for _, n := range []int{1, 2} {
			got, err := b.spellOfJob(ctx, r, n, b.python, b.script, "train", model, batch, strconv.Itoa(n), strconv.Itoa(steps))
			if err != nil {
				return res, err
			}
			if n == 1 {
				res.peerAlone = append(res.peerAlone, got)
			} else {
				res.peer = append(res.peer, got)
			}
		}
	}
	for _, p := range []struct {
		name        string
		pair, alone []rate
	}{{"paragon", res.ours, res.oursAlone}, {"pytorch", res.peer, res.peerAlone}} {
		b.print(p.name, r, p.pair, 0)
		b.print(p.name, alone, p.alone, 0)
		lo, mid, hi := pairs(p.pair, p.alone)
		fmt.Fprintf(b.out, "BenchmarkScaling/%v/program=%s \t%d\t%.2f x\t%.2f x-min\t%.2f x-median\t%.2f x-max\n", r, p.name, len(p.pair), ratio(wall, p.pair, p.alone), lo, mid, hi)
	}
	return res, nil
}

// spellAlone is one long spell of a serving process.
func (b *bench) spellAlone(ctx context.Context, args []string, batch int) (rate, error) {
	p, err := b.start(ctx, nil, args...)
	if err != nil {
		return rate{}, err
	}
	defer p.stop()
	n, err := p.ask(fmt.Sprintf("run %g", b.seconds*float64(b.turns)))
	return rateOf(n, batch), err
}

// spellLine is a process's line, behind its name where launch prints it; not the line that launch repeats at the end.
var spellLine = regexp.MustCompile(`(?m)^(?:worker \d+ +\| )?spell (\d+) ([0-9.e+-]+) ([0-9.e+-]+)$`)

// spellOfJob runs a command whose n processes each print "spell STEPS SECONDS CPU", and adds up their rates.
func (b *bench) spellOfJob(ctx context.Context, r row, n int, args ...string) (rate, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), b.tuned(r)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // launch and Python clean up behind themselves
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return rate{}, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	spells := spellLine.FindAllStringSubmatch(string(out), -1)
	if len(spells) != n {
		return rate{}, fmt.Errorf("%s: got %d lines with a spell, want %d:\n%s", strings.Join(args, " "), len(spells), n, out)
	}
	var sum rate
	for _, s := range spells {
		var n [3]float64
		for i := range n {
			if n[i], err = strconv.ParseFloat(s[i+1], 64); err != nil {
				return rate{}, fmt.Errorf("%s: %q: %w", args[0], s[0], err)
			}
		}
		got := rateOf(n, r.batch)
		sum.wall, sum.cpu = sum.wall+got.wall, sum.cpu+got.cpu/float64(len(spells))
	}
	return sum, nil
}
