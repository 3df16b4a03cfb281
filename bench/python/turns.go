package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/bench/internal/processes"
)

const (
	// quietShare is the part of the cores that others may take in a quiet turn.
	quietShare = 0.05
	// quietFew is how many quiet turns are enough to leave the others out.
	quietFew = 3
	// patience times as many turns as asked for are made, in the hope of quiet ones.
	patience = 4
)

// A turn is what both sides of a row took, in seconds, and the part of the cores that others took
// meanwhile.
type turn struct{ python, peer, others float64 }

// measure makes the turns of a row and prints it.
func (b *bench) measure(ctx context.Context, r row, share time.Duration) error {
	var turns []turn
	begun, quiet, longest := time.Now(), 0, time.Duration(0)
	var last turn
	for i := 0; i < patience*b.turns && quiet < b.turns; i++ {
		if i > 0 && time.Since(begun)+longest > share {
			break
		}
		at := time.Now()
		t, err := b.turn(ctx, r, last, i%2 == 1)
		if err != nil {
			return err
		}
		longest, last = max(longest, time.Since(at)), t
		if i == 0 && r.sized {
			// It says how many steps the next ones are to have.
			continue
		}
		turns = append(turns, t)
		if t.others <= quietShare {
			quiet++
		}
	}
	if quiet >= quietFew {
		turns = slices.DeleteFunc(turns, func(t turn) bool { return t.others > quietShare })
	}
	if len(turns) == 0 {
		// There was no time for another one.
		turns = append(turns, last)
	}
	b.print(r, turns)
	return nil
}

// turn plays both sides.
func (b *bench) turn(ctx context.Context, r row, last turn, peerFirst bool) (t turn, err error) {
	worked, own, at := b.busy(), childrenTime(), time.Now()
	python := func() {
		if err == nil {
			t.python, err = r.python(ctx, b, last.python)
		}
	}
	if !peerFirst {
		python()
	}
	if err == nil {
		t.peer, err = r.peer(ctx, b, last.peer)
	}
	if peerFirst {
		python()
	}
	others := b.busy() - worked - (childrenTime() - own)
	t.others = max(0, others) / time.Since(at).Seconds() / float64(runtime.NumCPU())
	return t, err
}

// print writes a row.
func (b *bench) print(r row, turns []turn) {
	of := func(f func(turn) float64) []float64 {
		x := make([]float64, len(turns))
		for i, t := range turns {
			x[i] = f(t)
		}
		return x
	}
	python, peer := median(of(func(t turn) float64 { return t.python })), median(of(func(t turn) float64 { return t.peer }))
	lo, mid, hi := interval(of(func(t turn) float64 { return t.peer / t.python }))
	most := slices.Max(of(func(t turn) float64 { return t.others }))
	fmt.Fprintf(b.out, "BenchmarkRatio/%s/peer=%s \t%d\t%.3f x\t%.3f x-low\t%.3f x-high\t%.0f python-ns/op\t%.0f peer-ns/op\t%.2f others\n",
		r.name, r.other, len(turns), mid, lo, hi, python*1e9, peer*1e9, most)
	if r.added {
		lo, mid, hi := interval(of(func(t turn) float64 { return t.python - t.peer }))
		fmt.Fprintf(b.out, "BenchmarkAdded/%s/peer=%s \t%d\t%.0f ns/op\t%.0f ns-low\t%.0f ns-high\n", r.name, r.other, len(turns), mid*1e9, lo*1e9, hi*1e9)
	}
}

// output runs a program to its end and returns what it has printed.
func (b *bench) output(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = b.env()
	processes.OwnGroup(cmd)
	cmd.Cancel = func() error { return processes.SignalGroup(cmd, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	reap()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(program), strings.Join(args, " "), err, errs.String(), out.String())
	}
	return out.String(), nil
}

// busy is the time in seconds that all cores together have worked; 0 where that cannot be read.
func busy() float64 {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(data), "\n")
	total := 0.0
	for i, field := range strings.Fields(line)[1:] {
		// Idle and waiting for a disk are the fourth and the fifth.
		if x, err := strconv.ParseFloat(field, 64); err == nil && i != 3 && i != 4 {
			total += x
		}
	}
	return total / 100
}

// childrenTime is the time in seconds that the processes which were waited for have worked.
func childrenTime() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// median is the middle value, or the mean of the two in the middle.
func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

// interval returns the median of x, and where 95 % of the medians of samples drawn anew lie.
func interval(x []float64) (lo, mid, hi float64) {
	random := rand.New(rand.NewPCG(1, 1))
	medians := make([]float64, 2000)
	drawn := make([]float64, len(x))
	for i := range medians {
		for j := range drawn {
			drawn[j] = x[random.IntN(len(x))]
		}
		medians[i] = median(drawn)
	}
	slices.Sort(medians)
	return medians[len(medians)/40], median(x), medians[len(medians)-1-len(medians)/40]
}
