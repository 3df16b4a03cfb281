package exposition

import (
	"io"
	"slices"
	"strconv"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// A Process says whose measurements are written.
type Process struct {
	Role string // Worker or Server

	// Rank is below 0 if there is none yet, and is written as it is.
	Rank int

	Host string
	Node uint64
}

// Labels are the labels of everything that the process measures.
func (p Process) Labels() []Label {
	return []Label{{"host", p.Host}, {"node", strconv.FormatUint(p.Node, 10)}, {"rank", strconv.Itoa(p.Rank)}}
}

// Write writes a record in Prometheus's text format. Values that the record lacks are left out. The
// error is that of w.
func Write(w io.Writer, p Process, r telemetry.Record) error {
	values := make(map[telemetry.Metric]map[int]float64)
	for _, s := range r.Samples {
		if values[s.Metric] == nil {
			values[s.Metric] = make(map[int]float64)
		}
		values[s.Metric][int(s.Index)] = s.Value
	}
	var scores []string
	for i, s := range r.Scores {
		if i == 0 {
			values[telemetry.TestScore] = make(map[int]float64)
		}
		values[telemetry.TestScore][i] = s.Value
		scores = append(scores, s.Name)
	}
	var t Text
	labels := p.Labels()
	for i := range Families {
		f := &Families[i]
		of := values[f.Metric]
		if f.Role != p.Role || len(of) == 0 {
			continue
		}
		if f.Type == InHistogram {
			h := Histograms[f.Metric]
			count, ok := values[h.Count][0]
			sum, okSum := values[h.Sum][0]
			if ok && okSum {
				buckets := make([]float64, len(telemetry.StepBounds))
				for i := range buckets {
					buckets[i] = of[i]
				}
				t.AddHistogram(f, buckets, count, sum, labels...)
			}
			continue
		}
		info, _ := f.Metric.Info()
		for index := range info.Width {
			v, ok := of[index]
			switch {
			case !ok:
			case info.Label != "":
				t.Add(f, v, append(slices.Clip(labels), Label{info.Label, LabelValue(info.Label, index, scores)})...)
			default:
				t.Add(f, v, labels...)
			}
		}
	}
	return t.Write(w, t.Names())
}
