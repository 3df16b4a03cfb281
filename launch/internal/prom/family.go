package prom

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/telemetry"
)

// A histogram is made of the buckets of a metric, and of two more metrics.
type histogram struct {
	name       string
	count, sum telemetry.Metric
}

var histograms = map[telemetry.Metric]histogram{
	telemetry.StepBuckets:  {"step_duration_seconds", telemetry.Steps, telemetry.StepSeconds},
	telemetry.RoundBuckets: {"round_duration_seconds", telemetry.Rounds, telemetry.RoundSeconds},
}

// A family is a metric of the processes of one role, as Prometheus has it.
type family struct {
	Name   string
	Help   string
	Type   string   // counter, gauge or histogram
	Labels []string // besides rank, host and node

	role   string
	metric telemetry.Metric
}

// The types of a family.
const (
	counter     = "counter"
	gauge       = "gauge"
	inHistogram = "histogram"
)

// ofProcess are the labels of everything that one process measures.
var ofProcess = []string{"rank", "host", "node"}

// families are those that follow from telemetry.Info, by role and in the order of the metrics.
var families = func() (list []family) {
	for _, role := range []string{control.Worker, control.Server} {
		for _, m := range telemetry.Metrics() {
			if f, ok := familyOf(role, m); ok {
				list = append(list, f)
			}
		}
	}
	return list
}()

// familyOf is the family of a metric; false: processes of the role have none, or it is a part of a histogram.
func familyOf(role string, m telemetry.Metric) (family, bool) {
	i, _ := m.Info()
	if of := map[string]int{control.Worker: telemetry.OfWorker, control.Server: telemetry.OfServer}[role]; i.Roles&of == 0 {
		return family{}, false
	}
	for _, h := range histograms {
		if h.sum == m {
			return family{}, false
		}
	}
	f := family{Name: i.Name, Help: i.Help, Type: gauge, role: role, metric: m}
	switch h, ok := histograms[m]; {
	case ok:
		f.Name, f.Type = h.name, inHistogram
	case i.Kind == telemetry.Counter:
		f.Name, f.Type = i.Name+"_total", counter
	}
	if i.Label != "" && f.Type != inHistogram {
		f.Labels = []string{i.Label}
	}
	return f.named(role), true
}

// named completes a family.
func (f family) named(of string) family {
	f.Name = "paragon_" + of + "_" + f.Name
	return f
}

// labelValue is what a label says of an index of a metric.
func labelValue(label string, index int) string {
	if label == "transport" && index < len(telemetry.Transports) {
		return telemetry.Transports[index]
	}
	return fmt.Sprint(index)
}

// Of processes, what the scheduler knows of them.
var (
	recordAge     = map[string]*family{control.Worker: recordAgeOf(control.Worker), control.Server: recordAgeOf(control.Server)}
	blamedRounds  = family{Name: "blamed_rounds_total", Help: "Rounds in which this worker's contribution came last.", Type: counter, role: control.Worker}.named(control.Worker)
	blamedSeconds = family{Name: "blamed_seconds_total", Help: "Time by which this worker's contributions came after the last but one.", Type: counter,
		role: control.Worker}.named(control.Worker)
)

func recordAgeOf(role string) *family {
	f := family{Name: "record_age_seconds", Help: "Age of the newest values of this process.", Type: gauge, role: role}.named(role)
	return &f
}

// Of the job.
var (
	jobInfo       = ofJob("info", gauge, "The job's ID; the value is 1.", "id")
	jobStart      = ofJob("scheduler_start_timestamp_seconds", gauge, "When this scheduler began, in Unix time. Another one after each start: counters of the job begin again.")
	jobPhase      = ofJob("phase", gauge, "1 for the phase that the job is in, 0 for the others.", "phase")
	jobGeneration = ofJob("generation", gauge, "Version of the membership.")
	jobNodes      = ofJob("nodes", gauge, "Servers and workers by state.", "role", "state")
	jobChanges    = ofJob("changes_total", counter, "Changes of the membership by cause.", "cause")
	jobRestarts   = ofJob("restarts_total", counter, "How often launch has started this job again (--restarts).")
	checkpointAge = ofJob("checkpoint_age_seconds", gauge, "Time since the newest checkpoint was complete, by the scheduler's clock; not there before the first one.")
	checkpointDur = ofJob("checkpoint_duration_seconds", gauge, "Time that the newest checkpoint took.")
	slowShare     = ofJob("slow_worker_ratio", gauge, "Share of the rounds in which others waited for this worker; there for workers that launch ctl why names.", "rank", "host", "cause")
	slowGap       = ofJob("slow_worker_gap_seconds", gauge, "Mean time in a round that others waited for this worker.", "rank", "host", "cause")

	jobFamilies = []family{jobInfo, jobStart, jobPhase, jobGeneration, jobNodes, jobChanges, jobRestarts, checkpointAge, checkpointDur, slowShare, slowGap}
)

func ofJob(name, typ, help string, labels ...string) family {
	return family{Name: name, Help: help, Type: typ, Labels: labels}.named("job")
}

// all are all families, sorted as in docs/metrics.md: those of the job, of workers, of servers.
func all() (list []family) {
	list = slices.Clone(jobFamilies)
	for _, role := range []string{control.Worker, control.Server} {
		for _, f := range families {
			if f.role == role {
				list = append(list, f)
			}
		}
		if role == control.Worker {
			list = append(list, blamedRounds, blamedSeconds)
		}
		list = append(list, *recordAge[role])
	}
	return list
}

// Table is the table of all metrics in docs/metrics.md.
func Table() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | what |\n| --- | --- | --- | --- |\n")
	for _, f := range all() {
		labels := f.Labels
		if f.role != "" {
			labels = append(slices.Clone(ofProcess), labels...)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Name, f.Type, strings.Join(labels, ", "), f.Help)
	}
	return b.String()
}
