package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/bench/internal/machine"
	"github.com/paragon-train/paragon/bench/internal/processes"
)

// measureScaling compares two processes of one thread with one, for each program: launch with two
// workers and two servers against a process without a store; DistributedDataParallel over gloo
// against a process without it.
func (b *bench) measureScaling(ctx context.Context, r row, until time.Time) (result, error) {
	res := result{row: r}
	alone := r
	alone.processes = 1
	for i := 0; i < b.processes && (i == 0 || time.Now().Before(until)); i++ {
		err := b.scalingTurn(ctx, &res, alone)
		if errors.Is(err, errLate) && i > 0 {
			// The turns that were made count.
			break
		}
		if err != nil {
			return res, err
		}
	}
	res.late = machine.Disturbed(res.others())
	for _, p := range []struct {
		name        string
		pair, alone []rate
	}{{"paragon", res.ours, res.oursAlone}, {"pytorch", res.peer, res.peerAlone}} {
		b.print(p.name, r, p.pair, 0)
		b.print(p.name, alone, p.alone, 0)
		if res.late != "" {
			fmt.Fprintf(b.out, "# BenchmarkScaling/%v/program=%s: %s\n", r, p.name, res.late)
			continue
		}
		lo, mid, hi := pairs(p.pair, p.alone)
		fmt.Fprintf(b.out, "BenchmarkScaling/%v/program=%s \t%d\t%.2f x\t%.2f x-min\t%.2f x-median\t%.2f x-max\n", r, p.name, len(p.pair), ratio(wall, p.pair, p.alone), lo, mid, hi)
	}
	if res.late != "" {
		fmt.Fprintf(b.out, "# BenchmarkRatio/%v: %s\n", r, res.late)
		return res, nil
	}
	lo, mid, hi := pairs(res.ours, res.peer)
	fmt.Fprintf(b.out, "BenchmarkRatio/%v \t%d\t%.2f x\t%.2f x-min\t%.2f x-median\t%.2f x-max\t%.2f others\t%s ours-images/s\t%s peer-images/s\n", r, len(res.ours),
		ratio(wall, res.ours, res.peer), lo, mid, hi, res.others(), figure(median(of(wall, res.ours))), figure(median(of(wall, res.peer))))
	return res, nil
}

// scalingTurn adds one measurement of each kind, or none.
func (b *bench) scalingTurn(ctx context.Context, res *result, alone row) error {
	r := res.row
	model, batch := r.model, strconv.Itoa(r.batch)
	ours, err := b.spellAlone(ctx, b.ourServe(alone), r.batch)
	if err != nil {
		return err
	}
	// As many steps as take about as long as all spells of a process do in other rows. The
	// peer, which may be much slower, takes few at first.
	stepsAt := func(x rate) int { return max(3, int(x.wall/float64(r.batch)*b.seconds*float64(b.turns))) }
	steps := stepsAt(ours)
	pair, err := b.spellOfJob(ctx, r, 2, b.launch, "-n", "2", "-s", "2", "--", b.ours, "train", "--model", model, "--batch", batch, "--threads", "1", "--steps", strconv.Itoa(steps))
	if err != nil {
		return err
	}
	var theirs [2]rate
	steps = max(3, steps/4)
	for i := range theirs {
		if i > 0 {
			steps = stepsAt(theirs[i-1])
		}
		n := strconv.Itoa(i + 1)
		if theirs[i], err = b.spellOfJob(ctx, r, i+1, b.python, b.script, "train", model, batch, n, strconv.Itoa(steps)); err != nil {
			return err
		}
	}
	res.oursAlone, res.ours = append(res.oursAlone, ours), append(res.ours, pair)
	res.peerAlone, res.peer = append(res.peerAlone, theirs[0]), append(res.peer, theirs[1])
	return nil
}

// spellAlone is one long spell of a serving process.
func (b *bench) spellAlone(ctx context.Context, args []string, batch int) (rate, error) {
	p, err := b.start(ctx, nil, args...)
	if err != nil {
		return rate{}, err
	}
	defer p.stop()
	before := b.busy()
	n, err := p.run(b.seconds * float64(b.turns))
	got := rateOf(n, batch)
	got.others = othersShare(b.busy()-before-n[2], n[1])
	return got, err
}

// spellLine is a process's line, behind its name where launch prints it; not the line that launch
// repeats at the end.
var spellLine = regexp.MustCompile(`(?m)^(?:worker \d+ +\| )?spell (\d+) ([0-9.e+-]+) ([0-9.e+-]+)$`)

// spellOfJob runs a command whose n processes each print "spell STEPS SECONDS CPU", and adds up
// their rates.
func (b *bench) spellOfJob(ctx context.Context, r row, n int, args ...string) (rate, error) {
	begun := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, b.limit, errLate)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), b.tuned(r)...)
	processes.OwnGroup(cmd)

	// Launch and Python clean up behind themselves.
	cmd.Cancel = func() error { return processes.SignalGroup(cmd, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	var out processes.Tail
	cmd.Stdout, cmd.Stderr = &out, &out
	before, started := b.busy(), time.Now()
	err := cmd.Start()
	if err == nil {
		err = cmd.Wait()

		// This ends what it has left behind.
		_ = processes.SignalGroup(cmd, syscall.SIGKILL)
	}
	worked, took := b.busy()-before, time.Since(started).Seconds()
	switch cause := context.Cause(ctx); {
	case err != nil && cause == errLate: //nolint:errorlint // a wrapped one says more, below
		return rate{}, fmt.Errorf("%s: no end within %v: %w", strings.Join(args[:2], " "), time.Since(begun).Round(time.Second/10), errLate)
	case err != nil && errors.Is(cause, errLate):
		return rate{}, fmt.Errorf("%s: no end when %w", strings.Join(args[:2], " "), cause)
	}
	if err != nil {
		return rate{}, b.blame(fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out.Last()), args)
	}
	spells := spellLine.FindAllStringSubmatch(out.String(), -1)
	if len(spells) != n {
		return rate{}, b.blame(fmt.Errorf("%s: got %d lines with a spell, want %d:\n%s", strings.Join(args, " "), len(spells), n, out.Last()), args)
	}
	var sum rate
	for _, s := range spells {
		var n [3]float64
		for i := range n {
			if n[i], err = strconv.ParseFloat(s[i+1], 64); err == nil && n[i] <= 0 {
				err = errors.New("want numbers above 0")
			}
			if err != nil {
				return rate{}, b.blame(fmt.Errorf("%s: %q: %w", args[0], s[0], err), args)
			}
		}
		got := rateOf(n, r.batch)
		sum.wall, sum.cpu = sum.wall+got.wall, sum.cpu+got.cpu/float64(len(spells))
	}

	// These times have those of the processes that it has waited for.
	own := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	sum.others = othersShare(worked-own.Seconds(), took)
	return sum, nil
}
