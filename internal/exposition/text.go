package exposition

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/internal/telemetry"
)

// A Process says whose measurements are written.
type Process struct {
	Role string // Worker or Server
	Rank int    // below 0: none yet, written as it is
	Host string
	Node uint64
}

// Write writes a record in Prometheus's text format, version 0.0.4. Values that the record lacks are left out. The error is that of w.
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
	labels := fmt.Sprintf("host=%s,node=\"%d\",rank=\"%d\"", quoted(p.Host), p.Node, p.Rank)
	var b strings.Builder
	for i := range Families {
		f := &Families[i]
		if f.Role != p.Role || len(values[f.Metric]) == 0 {
			continue
		}
		if f.Type == InHistogram {
			writeHistogram(&b, f, labels, values)
			continue
		}
		head(&b, f)
		info, _ := f.Metric.Info()
		for index := range info.Width {
			v, ok := values[f.Metric][index]
			if !ok {
				continue
			}
			of := labels
			if info.Label != "" {
				of += fmt.Sprintf(",%s=%s", info.Label, quoted(LabelValue(info.Label, index, scores)))
			}
			fmt.Fprintf(&b, "%s{%s} %s\n", f.Name, of, number(v))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func head(b *strings.Builder, f *Family) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", f.Name, strings.NewReplacer("\\", `\\`, "\n", `\n`).Replace(f.Help), f.Name, f.Type)
}

// writeHistogram writes the buckets, which are cumulative here, their number and their sum.
func writeHistogram(b *strings.Builder, f *Family, labels string, values map[telemetry.Metric]map[int]float64) {
	h := Histograms[f.Metric]
	count, ok := values[h.Count][0]
	sum, okSum := values[h.Sum][0]
	if !ok || !okSum {
		return
	}
	head(b, f)
	below := 0.0
	for i, bound := range telemetry.StepBounds {
		below += values[f.Metric][i]
		fmt.Fprintf(b, "%s_bucket{%s,le=%s} %s\n", f.Name, labels, quoted(number(bound)), number(min(below, count)))
	}
	fmt.Fprintf(b, "%s_bucket{%s,le=\"+Inf\"} %s\n%s_sum{%s} %s\n%s_count{%s} %s\n", f.Name, labels, number(count), f.Name, labels, number(sum), f.Name, labels, number(count))
}

// number is a value as Prometheus writes it.
func number(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// maxLabel bounds a label's value: the longest name that DNS has.
const maxLabel = 255

func quoted(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxLabel)], "?")
	return `"` + strings.NewReplacer("\\", `\\`, "\n", `\n`, `"`, `\"`).Replace(text) + `"`
}
