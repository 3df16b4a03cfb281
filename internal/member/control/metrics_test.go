package control

import (
	"math"
	"reflect"
	"testing"
)

func TestLinesWithMetricsAreRead(t *testing.T) {
	for _, tc := range []struct {
		line    string
		step    int
		metrics map[string]float64
	}{
		{"accuracy=0.5 step=3", 3, map[string]float64{"accuracy": 0.5}},
		{"step=0, loss=-1e-3, top5=+Inf", 0, map[string]float64{"loss": -1e-3, "top5": math.Inf(1)}},
		{"step=3", 0, nil},
		{"accuracy=0.5", 0, nil},
		{"epoch 3 accuracy=0.5 step=3", 0, nil},
		{"accuracy=0.5 step=1.5", 0, nil},
		{"accuracy=0.5 step=-1", 0, nil},
		{"accuracy=0.5 step=1 step=2", 0, nil},
		{"accuracy=good step=1", 0, nil},
		{"=1 step=1", 0, nil},
		{"", 0, nil},
	} {
		got, ok := ParseMetrics(tc.line)
		if ok != (tc.metrics != nil) || ok && (got.Step != tc.step || !reflect.DeepEqual(got.Values, tc.metrics)) {
			t.Errorf("%q: got %v, %v, want step %d, %v", tc.line, got, ok, tc.step, tc.metrics)
		}
	}
}

func TestLinesThatLackAStepAreKnown(t *testing.T) {
	for line, want := range map[string]bool{"accuracy=0.5": true, "a=1, b=2": true, "a=1 step=2": false, "a=1 step=x": false, "epoch 3": false, "": false, "a=b": false} {
		if got := WithoutStep(line); got != want {
			t.Errorf("%q: got %v, want %v", line, got, want)
		}
	}
}

func FuzzMetricsLine(f *testing.F) {
	f.Add("accuracy=0.5 step=3")
	f.Fuzz(func(t *testing.T, line string) {
		if m, ok := ParseMetrics(line); ok && (m.Step < 0 || len(m.Values) == 0) {
			t.Errorf("%q gives %v", line, m)
		}
	})
}

// Metrics are on whole lines of worker 0's standard output.
func TestMetricsAreThoseOfWorker0(t *testing.T) {
	var r MetricsReader
	var steps []int
	for _, l := range []Line{
		{Role: Worker, Stream: Stdout, Text: "a=1 step=1"},
		{Role: Worker, Stream: Stderr, Text: "a=1 step=2"},
		{Role: Worker, Rank: 1, Stream: Stdout, Text: "a=1 step=3"},
		{Role: Server, Stream: Stdout, Text: "a=1 step=4"},
		{Role: Worker, Stream: Stdout, Text: "a=1 step=5", More: true},
		{Role: Worker, Rank: 1, Stream: Stdout, Text: "a=1 step=6"},
		{Role: Worker, Stream: Stdout, Text: "a=1 step=7"},
		{Role: Worker, Stream: Stdout, Text: "a=1 step=8"},
	} {
		if m, ok := r.Read(l); ok {
			steps = append(steps, m.Step)
		}
	}
	if want := []int{1, 8}; !reflect.DeepEqual(steps, want) {
		t.Errorf("got the metrics of steps %v, want %v", steps, want)
	}
}
