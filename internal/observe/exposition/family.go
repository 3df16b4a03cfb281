// Package exposition has the Prometheus names of telemetry's metrics, writes Prometheus's text
// format, and serves one process's metrics in it. The endpoint of the whole job
// (launch/internal/prom) uses the same names and the same Text.
package exposition

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// The roles of processes that measure something.
const (
	Worker = "worker"
	Server = "server"
)

// A Histogram is made of the buckets of a metric, and of two more metrics.
type Histogram struct {
	Name       string
	Count, Sum telemetry.Metric
}

// Histograms has the histogram of each metric that is measured in buckets.
var Histograms = map[telemetry.Metric]Histogram{
	telemetry.StepBuckets:  {"step_duration_seconds", telemetry.Steps, telemetry.StepSeconds},
	telemetry.RoundBuckets: {"round_duration_seconds", telemetry.Rounds, telemetry.RoundSeconds},
}

// A Family is a metric of the processes of one role, as Prometheus has it.
type Family struct {
	Name string
	Help string
	Type string // counter, gauge or histogram

	// Labels are the labels besides rank, host and node.
	Labels []string

	// Role is control's word: worker or server.
	Role string

	Metric telemetry.Metric
}

// The types of a Family.
const (
	Counter     = "counter"
	Gauge       = "gauge"
	InHistogram = "histogram"
)

// OfProcess are the labels of everything that one process measures.
var OfProcess = []string{"rank", "host", "node"}

// Families are those that follow from telemetry.Info, by role and in the order of the metrics.
var Families = func() (list []Family) {
	for _, role := range []string{Worker, Server} {
		for _, m := range telemetry.Metrics() {
			if f, ok := familyOf(role, m); ok {
				list = append(list, f)
			}
		}
	}
	return list
}()

// familyOf is the family of a metric; false: processes of the role have none, or it is a part of a
// histogram.
func familyOf(role string, m telemetry.Metric) (Family, bool) {
	i, _ := m.Info()
	if of := map[string]int{Worker: telemetry.OfWorker, Server: telemetry.OfServer}[role]; i.Roles&of == 0 {
		return Family{}, false
	}
	for _, h := range Histograms {
		if h.Sum == m {
			return Family{}, false
		}
	}
	f := Family{Name: i.Name, Help: i.Help, Type: Gauge, Role: role, Metric: m}
	switch h, ok := Histograms[m]; {
	case ok:
		f.Name, f.Type = h.Name, InHistogram
	case i.Kind == telemetry.Counter:
		f.Name, f.Type = i.Name+"_total", Counter
	}
	if i.Label != "" && f.Type != InHistogram {
		f.Labels = []string{i.Label}
	}
	return f.Named(role), true
}

// Named completes the name of a Family: of a role, or of the job.
func (f Family) Named(of string) Family {
	f.Name = "paragon_" + of + "_" + f.Name
	return f
}

// LabelValue is what a label says of an index of a metric; scores are the names of
// telemetry.TestScore.
func LabelValue(label string, index int, scores []string) string {
	switch {
	case label == "transport" && index < len(telemetry.Transports):
		return telemetry.Transports[index]
	case label == "name" && index < len(scores):
		return scores[index]
	}
	return fmt.Sprint(index)
}
