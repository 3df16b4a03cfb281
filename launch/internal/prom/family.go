package prom

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/exposition"
)

type family = exposition.Family

const (
	counter     = exposition.Counter
	gauge       = exposition.Gauge
	inHistogram = exposition.InHistogram
)

// Of processes, what the scheduler knows of them.
var (
	recordAge     = map[string]*family{control.Worker: recordAgeOf(control.Worker), control.Server: recordAgeOf(control.Server)}
	blamedRounds  = family{Name: "blamed_rounds_total", Help: "Rounds in which this worker's contribution came last.", Type: counter, Role: control.Worker}.Named(control.Worker)
	blamedSeconds = family{Name: "blamed_seconds_total", Help: "Time by which this worker's contributions came after the last but one.", Type: counter,
		Role: control.Worker}.Named(control.Worker)
)

func recordAgeOf(role string) *family {
	f := family{Name: "record_age_seconds", Help: "Age of the newest values of this process.", Type: gauge, Role: role}.Named(role)
	return &f
}

// Of the job.
var (
	jobInfo       = ofJob("info", gauge, "The job's ID; the value is 1.", "id")
	jobStart      = ofJob("scheduler_start_timestamp_seconds", gauge, "When this scheduler began, in Unix time. It changes with each restart, and the counters of the job begin again.")
	jobPhase      = ofJob("phase", gauge, "1 for the phase that the job is in, 0 for the others.", "phase")
	jobGeneration = ofJob("generation", gauge, "Version of the membership.")
	jobNodes      = ofJob("nodes", gauge, "Servers and workers by state.", "role", "state")
	jobChanges    = ofJob("changes_total", counter, "Changes of the membership by cause.", "cause")
	jobRestarts   = ofJob("restarts_total", counter, "How often launch has started this job again (--restarts).")
	checkpointAge = ofJob("checkpoint_age_seconds", gauge, "Time since the newest checkpoint was complete, by the scheduler's clock; absent before the first one.")
	checkpointDur = ofJob("checkpoint_duration_seconds", gauge, "Time that the newest checkpoint took.")
	slowShare     = ofJob("slow_worker_ratio", gauge, "Share of the rounds in which others waited for this worker; present only for workers that launch ctl why names.", "rank", "host", "cause")
	slowGap       = ofJob("slow_worker_gap_seconds", gauge, "Mean time in a round that others waited for this worker.", "rank", "host", "cause")

	jobFamilies = []family{jobInfo, jobStart, jobPhase, jobGeneration, jobNodes, jobChanges, jobRestarts, checkpointAge, checkpointDur, slowShare, slowGap}
)

func ofJob(name, typ, help string, labels ...string) family {
	return family{Name: name, Help: help, Type: typ, Labels: labels}.Named("job")
}

// all has every family, sorted as in docs/reference/metrics.md: those of the job, of workers, of
// servers.
func all() (list []family) {
	list = slices.Clone(jobFamilies)
	for _, role := range []string{control.Worker, control.Server} {
		for _, f := range exposition.Families {
			if f.Role == role {
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

// Table is the table of all metrics in docs/reference/metrics.md.
func Table() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | what |\n| --- | --- | --- | --- |\n")
	for _, f := range all() {
		labels := f.Labels
		if f.Role != "" {
			labels = append(slices.Clone(exposition.OfProcess), labels...)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Name, f.Type, strings.Join(labels, ", "), f.Help)
	}
	return b.String()
}
