package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/paragon-train/paragon/internal/procs"
	"github.com/paragon-train/paragon/metrics"
)

// memory is what the processes that stay have used, round by round.
type memory struct {
	j    *job
	list []*trace
}

// A trace is one process.
type trace struct {
	name                    string
	pid                     int
	resident, shared, files []float64 // MB, MB of it shared with others, and open files
	live                    []float64 // MB on the heap after the last collection
}

// newMemory finds the processes that are there.
func newMemory(j *job) (*memory, error) {
	found, err := procs.Find(jobEnv, j.Dir)
	if err != nil {
		return nil, err
	}
	m := &memory{j: j}
	for _, p := range found {
		name := "agent"
		switch role := p.Env("DMLC_ROLE"); {
		case role == "scheduler":
			name = role
		case role != "":
			name = role + " " + p.Env("PARAGON_RANK")
		case p.PID == j.PID():
			name = "launcher"
		}
		m.list = append(m.list, &trace{name: name, pid: p.PID})
	}
	slices.SortFunc(m.list, func(a, b *trace) int { return strings.Compare(a.name, b.name) })
	if want := 3 + servers + workers; len(m.list) != want {
		return nil, fmt.Errorf("got %d processes of the job, want %d: launcher, agent, scheduler, %d servers and %d workers", len(m.list), want, servers, workers)
	}
	return m, nil
}

// sample takes what they use now.
func (m *memory) sample() error {
	for _, t := range m.list {
		u, err := procs.UsageOf(t.pid)
		if err != nil {
			return fmt.Errorf("%s has ended: %w", t.name, err)
		}
		t.resident = append(t.resident, float64(u.Resident)/1024)
		t.shared = append(t.shared, float64(u.Shared)/1024)
		t.files = append(t.files, float64(u.Files))
		t.live = append(t.live, float64(m.j.heaps.of(t.name)))
	}
	return nil
}

// quarters are the medians of the second and of the last quarter.
func quarters(list []float64) (early, late float64) {
	middle := func(list []float64) float64 {
		if len(list) == 0 {
			return 0
		}
		list = slices.Sorted(slices.Values(list))
		return list[len(list)/2]
	}
	n := len(list)
	return middle(list[n/4 : n/2]), middle(list[n*3/4:])
}

// most is how much of a measure may become of what it was in the second quarter: noise.
func most(early, extra float64) float64 { return early*1.1 + extra }

// judge prints a table, and returns what has grown.
func (m *memory) judge(w io.Writer) error {
	var wrong []error
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "process\tresident, MB: first\t2nd quarter\tlast quarter\tof it shared\tlive heap, MB: 2nd quarter\tlast quarter\topen files: 2nd quarter\tlast quarter")
	for _, x := range m.list {
		a, b := quarters(x.resident)
		_, shared := quarters(x.shared)
		ha, hb := quarters(x.live)
		fa, fb := quarters(x.files)
		heap := fmt.Sprintf("%.0f\t%.0f", ha, hb)
		if hb == 0 {
			heap = "\t"
		}
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%s\t%.0f\t%.0f\n", x.name, x.resident[0], a, b, shared, heap, fa, fb)
		if b > most(a, 4+ha) { // the collector lets garbage grow to what is live before it looks
			wrong = append(wrong, fmt.Errorf("resident memory of %s grows: %.1f to %.1f MB", x.name, a, b))
		}
		if ha > 0 && hb > most(ha, 4) {
			wrong = append(wrong, fmt.Errorf("the live heap of %s grows: %.0f to %.0f MB", x.name, ha, hb))
		}
		if fb > most(fa, 10) {
			wrong = append(wrong, fmt.Errorf("open files of %s grow: %.0f to %.0f", x.name, fa, fb))
		}
	}
	t.Flush()
	return errors.Join(wrong...)
}

// draw draws memory by round.
func (m *memory) draw(path, title string) error {
	resident := metrics.Panel{Title: title, X: "round", Y: "resident memory, MB", FromZero: true}
	live := metrics.Panel{Title: title, X: "round", Y: "live heap after a collection, MB", FromZero: true}
	for _, t := range m.list {
		rounds := make([]float64, len(t.resident))
		for i := range rounds {
			rounds[i] = float64(i + 1)
		}
		resident.Series = append(resident.Series, metrics.Series{Name: t.name, X: rounds, Y: t.resident})
		series := metrics.Series{Name: t.name, X: rounds, Y: t.live}
		if slices.Max(t.live) == 0 { // not known
			series.X, series.Y = nil, nil
		}
		live.Series = append(live.Series, series)
	}
	return metrics.Curves(path, resident, live)
}
