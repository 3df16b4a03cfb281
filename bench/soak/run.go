package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/paragon-train/paragon/internal/observe/procs"
)

// run lets faults come for the time given, waits for the job's end, and judges it.
func (j *job) run(ctx context.Context) error {
	r := rand.New(rand.NewPCG(j.c.seed, 0x736f616b))
	all := faults()
	until := j.begun.Add(time.Duration(j.c.minutes * float64(time.Minute)))
	if j.c.quiet {
		until = j.begun
	}

	// The job forms: no step is expected yet.
	if err := j.watch(ctx, 15*time.Second, false); err != nil {
		return j.report(err)
	}
	for time.Now().Before(until) && !j.over() {
		pause := j.c.min + time.Duration(r.Int64N(int64(j.c.max-j.c.min)+1))
		if err := j.watch(ctx, pause, true); err != nil {
			return j.report(err)
		}
		if j.over() {
			break
		}
		j.inject(ctx, all[r.IntN(len(all))], r)
	}

	// Without faults the rest comes by itself.
	for !j.over() {
		if err := j.watch(ctx, 10*time.Second, true); err != nil {
			return j.report(err)
		}
	}
	return j.report(ctx.Err())
}

// inject carries out a fault and notes it. One that fails is noted, too: it may have begun.
func (j *job) inject(ctx context.Context, f fault, r *rand.Rand) {
	at := time.Now()
	what, err := f.do(ctx, j, r)
	switch {
	case errors.Is(err, errNone):
		return
	case err != nil:
		fmt.Printf("%6.0fs  %s: %v\n", at.Sub(j.begun).Seconds(), f.name, err)
	default:
		fmt.Printf("%6.0fs  %s: %s\n", at.Sub(j.begun).Seconds(), f.name, what)
	}
	j.done = append(j.done, injected{f, what, at})
}

// over says that launch has ended.
func (j *job) over() bool {
	select {
	case <-j.Ended():
		return true
	default:
		return false
	}
}

// watch waits, takes samples, and fails if training stands still.
func (j *job) watch(ctx context.Context, d time.Duration, formed bool) error {
	for begin := time.Now(); time.Since(begin) < d && !j.over(); {
		sleep(ctx, min(5*time.Second, d-time.Since(begin)))
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := j.sample(); err != nil {
			return err
		}
		steps, _, err := j.steps()
		if err != nil {
			return err
		}

		// Before the first step the time counts from when the job should have formed.
		last := j.begun.Add(20 * time.Second)
		if len(steps) > 0 {
			last = steps[len(steps)-1].At
		}
		if still := time.Since(last); formed && still > j.c.still && !j.over() {
			why, _ := j.ctl(ctx, "why")
			return fmt.Errorf("no step for %v; launch ctl why:\n%s", still.Round(time.Second), why)
		}
	}
	return nil
}

// sample notes what each process of the job uses now. One that ends meanwhile is left out.
func (j *job) sample() error {
	list, err := processes(j.events())
	if err != nil {
		return err
	}
	for _, p := range append(list, process{pid: j.PID(), role: "launcher"}) {
		if u, err := procs.UsageOf(p.pid); err == nil {
			j.use = append(j.use, sample{p, u.Resident, u.Files})
		}
	}
	return nil
}

// report prints what happened and returns why it was not well.
func (j *job) report(failed error) error {
	steps, ends, err := j.steps()
	if err != nil {
		return errors.Join(failed, err)
	}
	var wrong []string
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if failed != nil {
		bad("%v", failed)
	} else if j.Err() != nil {
		bad("launch: %v", j.Err())
	}
	lost, doubled := 0, 0
	for _, e := range ends {
		lost, doubled = max(lost, e.Lost), max(doubled, e.Doubled)
		if e.Bits != ends[0].Bits {
			bad("workers ended with different values: %s and %s", e.Bits, ends[0].Bits)
		}
	}
	switch {
	case j.c.cifar10 != "" && j.said.accuracy == 0:
		bad("no worker told of its accuracy")
	case j.c.cifar10 == "" && len(ends) == 0:
		bad("no worker finished")
	}
	if lost+doubled > 0 {
		bad("%d examples lost, %d doubled", lost, doubled)
	}
	j.table(os.Stdout, steps, lost, doubled, len(ends) > 0)
	wrong = append(wrong, j.growth(os.Stdout, steps)...)
	if len(wrong) == 0 {
		fmt.Printf("\nall is well: %d faults, %d steps of %d workers' processes in %.0f s\n", len(j.done), len(steps), len(ends), time.Since(j.begun).Seconds())
		return nil
	}
	if text, err := os.ReadFile(j.log.Name()); err == nil {
		lines := bytes.Split(text, []byte("\n"))
		fmt.Fprintf(os.Stderr, "the last lines of launch:\n%s\n", bytes.Join(lines[max(0, len(lines)-60):], []byte("\n")))
	}
	return errors.New(strings.Join(wrong, "; "))
}

// table prints the faults by kind.
func (j *job) table(w io.Writer, steps []event, lost, doubled int, ended bool) {
	fmt.Fprintf(w, "\n%d CPUs, %s/%s; seed %d; lease %v\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, j.c.seed, lease)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "fault\tinjected by\ttimes\tlongest without progress")
	for _, f := range faults() {
		times, longest := 0, time.Duration(0)
		for i, d := range j.done {
			if d.name != f.name {
				continue
			}
			to := time.Now()
			if i+1 < len(j.done) {
				to = j.done[i+1].at
			}
			times++
			longest = max(longest, gap(steps, d.at, to))
		}
		if times > 0 {
			fmt.Fprintf(t, "%s\t%s\t%d\t%.1f s\n", f.name, f.how, times, longest.Seconds())
		}
	}
	t.Flush()
	if ended {
		fmt.Fprintf(w, "examples lost %d, doubled %d\n", lost, doubled)
	}
}

// gap is the longest time without a step between two moments.
func gap(steps []event, from, to time.Time) (longest time.Duration) {
	before := from
	for _, e := range steps {
		if e.At.Before(from) {
			continue
		}
		if before.After(to) {
			break
		}
		longest = max(longest, e.At.Sub(before))
		before = e.At
	}
	return longest
}

// growth compares the use of memory and files in the second quarter of the run with that in the
// last one.
func (j *job) growth(w io.Writer, steps []event) (wrong []string) {
	middle := func(list []int) int {
		if len(list) == 0 {
			return 0
		}
		slices.Sort(list)
		return list[len(list)/2]
	}
	n := len(j.use)
	for _, role := range []string{"launcher", "scheduler", "server", "worker"} {
		var rss, files [2][]int
		for i, s := range j.use {
			if s.role == role && i >= n/4 {
				late := 0
				if i >= n*3/4 {
					late = 1
				} else if i >= n/2 {
					continue
				}
				rss[late], files[late] = append(rss[late], s.rss), append(files[late], s.files)
			}
		}
		a, b, fa, fb := middle(rss[0]), middle(rss[1]), middle(files[0]), middle(files[1])
		fmt.Fprintf(w, "%s: %d KiB and %d files in the second quarter, %d KiB and %d files in the last\n", role, a, fa, b, fb)
		if a > 0 && b > a+a/4+10<<10 {
			wrong = append(wrong, fmt.Sprintf("memory of a %s grows: %d to %d KiB", role, a, b))
		}
		if fa > 0 && fb > 2*fa+20 {
			wrong = append(wrong, fmt.Sprintf("open files of a %s grow: %d to %d", role, fa, fb))
		}
	}
	var early, late []int
	for i, e := range steps {
		if i >= len(steps)/4 && i < len(steps)/2 {
			early = append(early, e.Goroutines)
		} else if i >= len(steps)*3/4 {
			late = append(late, e.Goroutines)
		}
	}
	a, b := middle(early), middle(late)
	fmt.Fprintf(w, "goroutines of a worker: %d, then %d\n", a, b)
	if a > 0 && b > 2*a+20 {
		wrong = append(wrong, fmt.Sprintf("goroutines of a worker grow: %d to %d", a, b))
	}
	return wrong
}
