package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A result is what one job did.
type result struct {
	// did is what the table says of the job.
	did string

	// still is the longest time without a step of any worker, from the fault on; took is all the
	// time since.
	still, took time.Duration

	// finished says that the job went on to its end.
	finished bool

	// ends are what workers told at their end. The rest sums it up.
	ends          map[string]*ending
	lost, doubled int
	bits          string

	// trouble is what must not be; the first one counts.
	trouble string
}

// run runs a job with a fault.
func run(ctx context.Context, seed uint64, f fault, verbose bool) (*result, error) {
	j, err := newJob(seed, f, verbose)
	if err != nil {
		return nil, err
	}
	defer j.close()
	if f.prepare != nil {
		if err := f.prepare(j); err != nil {
			return nil, err
		}
	}
	names := append(hostNames()[:1+servers], hostNames()[1+servers:1+servers+workers]...)
	for _, name := range names {
		if _, err := j.start(ctx, name); err != nil {
			return nil, err
		}
	}
	if err := j.at(ctx, 20*workers); err != nil {
		return nil, err
	}
	if j.begin(); f.inject != nil {
		if err := f.inject(ctx, j); err != nil {
			return nil, fmt.Errorf("inject: %w", err)
		}
	}
	stuck := j.wait(ctx)
	return j.result(stuck), ctx.Err()
}

// result sums up how the job ended.
func (j *job) result(stuck []string) *result {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := &result{ends: j.ends, took: time.Since(j.mark), still: longestGap(j.steps, j.mark)}
	ended, failures := j.endedWorkers(stuck)
	sched := j.procs["scheduler"]
	r.finished = ended > 0 && len(stuck) == 0 && sched.err == nil
	r.addEnds()
	switch {
	case len(stuck) > 0:
		slices.Sort(stuck)
		r.did, r.trouble = "hangs: "+strings.Join(stuck, ", "), "it hangs"
	case r.finished:
		r.did = fmt.Sprintf("went on; %d workers finished", ended)
		for _, name := range failures {
			r.did += fmt.Sprintf("; %s ended: %s", name, short(j.procs[name].log.lastLine()))
		}
	case sched.killed && len(failures) > 0:
		r.did = "ended: " + short(j.procs[failures[0]].log.lastLine())
	default:
		r.did = "ended: " + short(sched.log.lastLine())
	}
	return r
}

// longestGap is the longest time between two steps, or between the fault and a step, from the fault
// on.
func longestGap(steps []time.Time, fault time.Time) (longest time.Duration) {
	steps = append(slices.Clone(steps), fault)
	slices.SortFunc(steps, time.Time.Compare)
	for i := slices.IndexFunc(steps, fault.Equal) + 1; i < len(steps); i++ {
		longest = max(longest, steps[i].Sub(steps[i-1]))
	}
	return longest
}

// endedWorkers counts the workers that told of their end, and names those that failed by
// themselves. j.mu must be held.
func (j *job) endedWorkers(stuck []string) (ended int, failures []string) {
	for name, p := range j.procs {
		if !strings.HasPrefix(name, "worker") || slices.Contains(stuck, name) {
			continue
		}
		switch {
		case j.ends[name] != nil:
			ended++
		case p.err != nil && !p.killed:
			failures = append(failures, name)
		}
	}
	slices.Sort(failures)
	return ended, failures
}

// addEnds sums up what the workers told at their end. All must have the same values.
func (r *result) addEnds() {
	for _, e := range r.ends {
		r.lost, r.doubled = max(r.lost, e.Lost), max(r.doubled, e.Doubled)
		if r.bits != "" && r.bits != e.Bits {
			r.trouble = "workers ended with different values"
		}
		r.bits = e.Bits
	}
}

// short is what an error's line says that people want to read.
func short(line string) string {
	for _, before := range []string{"the job failed: ", "faults: "} {
		if i := strings.LastIndex(line, before); i >= 0 {
			line = line[i+len(before):]
		}
	}
	line = strings.ReplaceAll(line, "|", "/")
	if len(line) > 160 {
		line = line[:160] + " ..."
	}
	return line
}

// judge says what of a result must not be.
func (r *result) judge(f fault, quiet *result) {
	bad := func(format string, args ...any) {
		if r.trouble == "" {
			r.trouble = fmt.Sprintf(format, args...)
		}
	}
	switch {
	case r.trouble != "":
	case f.ends && r.finished:
		bad("the job finished, want it to end")
	case !f.ends && !r.finished:
		bad("the job ended, want it to go on")
	case r.lost > 0 && r.finished || r.doubled > 0:
		bad("%d examples lost, %d doubled", r.lost, r.doubled)
	case f.same && r.bits != quiet.bits:
		bad("the values are not those of a run without faults")
	case f.within > 0 && r.still > f.within:
		bad("%.1f s without progress, want at most %.1f s", r.still.Seconds(), f.within.Seconds())
	}
}

// writeHead writes what the job is, how a run without faults went, and the head of the table.
func writeHead(w io.Writer, quiet *result) {
	fmt.Fprintf(w, "%d workers, %d servers and a scheduler, each in a network namespace; %d examples, %d epochs, %d examples in a worker's step; lease %v, heartbeat %v; %d CPUs, %s/%s.\n",
		workers, servers, training.Examples, training.Epochs, training.Batch, lease, heartbeat, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(w, "Without a fault: %.1f s, at most %.2f s from step to step.\n\n", quiet.took.Seconds(), quiet.still.Seconds())
	fmt.Fprintln(w, "| fault | injected by | the job | seconds without progress | examples lost | doubled | values as without |")
	fmt.Fprintln(w, "| --- | --- | --- | ---: | ---: | ---: | --- |")
}

// writeRow writes a fault's row. Values that differ are no fault where the members changed.
func writeRow(w io.Writer, f fault, r, quiet *result) {
	bits, lost, doubled := "no: other members", fmt.Sprint(r.lost), fmt.Sprint(r.doubled)
	switch {
	case len(r.ends) == 0:
		bits, lost, doubled = "-", "-", "-"
	case r.bits == quiet.bits:
		bits = "bit for bit"
	case f.same:
		bits = "**no**"
	}
	did := r.did
	if r.trouble != "" {
		did += " **(" + r.trouble + ")**"
	}
	fmt.Fprintf(w, "| %s | %s | %s | %.1f | %s | %s | %s |\n", f.name, f.how, did, r.still.Seconds(), lost, doubled, bits)
}
