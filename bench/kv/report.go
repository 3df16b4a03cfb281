package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// measured is one work in one job.
type measured struct {
	job       size
	transport string
	work      work
	// took has the nanoseconds of an operation, for each sample of each worker.
	took []int64
	// first has those of a sample until its first key was there.
	first []int64
	// norms has those of an operation whose norms are measured, for a work that compares them.
	norms []int64
	// samples is how many each worker has.
	samples int
	cpu     time.Duration
	// workerCPU is the workers' part of cpu.
	workerCPU time.Duration
	// turns has the median nanoseconds of an operation, job by job.
	turns []int64
	// late is why it is not measured, or not in later turns; empty: it is.
	late string
}

// add takes what a worker measured.
func (m *measured) add(e event) error {
	if len(e.Took) == 0 || len(e.First) != len(e.Took) || m.work.norms != nil && len(e.Norms) == 0 || slices.Min(slices.Concat(e.Took, e.Norms)) < 1 {
		return fmt.Errorf("work %s: got times of %d samples, %d of first keys and %d with norms, want some, all above 0, and a first one for each",
			m.work.name, len(e.Took), len(e.First), len(e.Norms))
	}
	ops := int64(m.work.operations())
	for _, t := range e.Took {
		m.took = append(m.took, t/ops)
	}
	for _, t := range e.Norms {
		m.norms = append(m.norms, t/ops)
	}
	m.first = append(m.first, e.First...)
	m.samples = len(e.Took)
	return nil
}

func (m *measured) name() string {
	name := fmt.Sprintf("work=%s/workers=%d/servers=%d/transport=%s", m.work.name, m.job.workers, m.job.servers, m.transport)
	if m.job.backups {
		name += "/backups=1"
	}
	return name
}

// with is the same work in the same job over another transport, or a peer's.
func (m *measured) with(transport string) *measured {
	return &measured{job: m.job, transport: transport, work: m.work}
}

// skipped reports whether no peer measured the work and no reason was given: a peer may leave out a
// work that it does not support.
func (m *measured) skipped() bool { return len(m.turns) == 0 && m.late == "" }

// middle is the median of all samples, or why there is none in a word or two.
func (m *measured) middle() string {
	if len(m.turns) == 0 {
		why, _, _ := strings.Cut(m.late, ": ")
		return why
	}
	return rounded(median(m.took)).String()
}

// way says over what the processes spoke, and whether shards had backups.
func (m *measured) way() string {
	if m.job.backups {
		return m.transport + ", backups"
	}
	return m.transport
}

// traffic returns the bytes of one operation of all workers together.
func (m *measured) traffic() float64 {
	return float64(m.work.bytes()) / float64(m.work.operations()) * float64(m.job.workers)
}

// cpuPerOperation returns the nanoseconds that all processes together took for one worker's
// operation.
func (m *measured) cpuPerOperation() float64 {
	return float64(m.cpu) / float64(m.samples*m.work.operations()*m.job.workers)
}

// A report writes results as they come, and a table of them all.
type report struct {
	w io.Writer

	// saved is what was written.
	saved bytes.Buffer

	order []string
	all   map[string]*measured
}

func newReport(w io.Writer) *report {
	r := &report{all: map[string]*measured{}}
	r.w = io.MultiWriter(w, &r.saved)
	return r
}

// row is what there is of a job's work so far.
func (r *report) row(j *job, work string) *measured {
	m := &measured{job: j.size, transport: j.transport}
	// The name is one of ours.
	w, _ := findWork(work)
	m.work = w.scaled(j.scale)
	if have := r.all[m.name()]; have != nil {
		return have
	}
	r.order = append(r.order, m.name())
	r.all[m.name()] = m
	return m
}

// tooLate notes why a row is not measured, or not any more.
func (r *report) tooLate(m *measured, why string) {
	m.late = why
	fmt.Fprintf(r.w, "# BenchmarkKV/%s: %s\n", m.name(), why)
}

// line writes a result as Go's benchmarks do, and keeps it for the table.
func (r *report) line(m *measured) {
	ops := m.samples * m.work.operations()
	ns := median(m.took)
	fmt.Fprintf(r.w, "BenchmarkKV/%s %d %d ns/op %.2f MB/s %.0f cpu-ns/op", m.name(), ops, ns, m.traffic()/float64(ns)*1e3, m.cpuPerOperation())
	switch {
	case m.work.table != nil:
		fmt.Fprintf(r.w, " %.0f samples/s", batchExamples*float64(m.job.workers)/float64(ns)*1e9)
	case m.work.norms != nil:
		fmt.Fprintf(r.w, " %d measured-ns/op %.4f times", median(m.norms), float64(median(m.norms))/float64(ns))
	case m.work.whole:
		fmt.Fprintf(r.w, " %d first-ns/op", median(m.first))
	}
	fmt.Fprintln(r.w)
	m.turns = []int64{ns}
	have := r.all[m.name()]
	if have == nil {
		r.order = append(r.order, m.name())
		r.all[m.name()] = m
		return
	}
	have.took, have.first = append(have.took, m.took...), append(have.first, m.first...)
	have.norms = append(have.norms, m.norms...)
	have.turns = append(have.turns, ns)
	have.cpu += m.cpu
	have.workerCPU += m.workerCPU
	have.samples += m.samples
}

// end writes what all turns gave: the table, and behind it how each of our transports stands to the
// peers.
func (r *report) end(transports []string) {
	lines, table := r.ratios(transports)
	fmt.Fprint(r.w, lines)
	r.table()
	if lines != "" {
		fmt.Fprintf(r.w, "\n%s", table)
	}
}

// table writes least, median and greatest of all samples.
func (r *report) table() {
	fmt.Fprintln(r.w)
	t := tabwriter.NewWriter(r.w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "work\tworkers × servers\ttransport\tleast\tmedian\tgreatest\tGB/s at the median\toperations/s of a worker\tCPU of all, for a worker's operation\t")
	for _, name := range r.order {
		m := r.all[name]
		if m.skipped() {
			continue
		}
		if len(m.turns) == 0 {
			fmt.Fprintf(t, "%s\t%d × %d\t%s\t%s\t\t\t\t\t\t\n", m.work.name, m.job.workers, m.job.servers, m.way(), m.middle())
			continue
		}
		mid := median(m.took)
		fmt.Fprintf(t, "%s\t%d × %d\t%s\t%v\t%v\t%v\t%.2f\t%.0f\t%v\t\n", m.work.name, m.job.workers, m.job.servers, m.way(),
			rounded(slices.Min(m.took)), rounded(mid), rounded(slices.Max(m.took)), m.traffic()/float64(mid), 1e9/float64(mid),
			rounded(int64(m.cpuPerOperation())))
	}
	t.Flush()
	for _, name := range r.order {
		if m := r.all[name]; len(m.norms) > 0 {
			fmt.Fprintf(r.w, "%s, %d × %d, %s: with norms %v, %.4f times as long\n", m.work.name, m.job.workers, m.job.servers, m.way(),
				rounded(median(m.norms)), float64(median(m.norms))/float64(median(m.took)))
		}
	}
}

// rounded gives a time three or so digits.
func rounded(ns int64) time.Duration {
	unit := time.Duration(1)
	for d := time.Duration(ns); d >= 1000*unit; {
		unit *= 10
	}
	return time.Duration(ns).Round(unit)
}

func median(x []int64) int64 {
	s := slices.Clone(x)
	slices.Sort(s)
	return s[len(s)/2]
}
