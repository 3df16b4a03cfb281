package tune

import (
	"bytes"
	"math"
	"reflect"
	"testing"
)

func TestLinesWithMetricsAreTold(t *testing.T) {
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
		step, metrics, ok := parseMetrics(tc.line)
		if ok != (tc.metrics != nil) || ok && (step != tc.step || !reflect.DeepEqual(metrics, tc.metrics)) {
			t.Errorf("%q: got step %d, %v, %v, want %d, %v", tc.line, step, metrics, ok, tc.step, tc.metrics)
		}
	}
}

func FuzzMetricsLine(f *testing.F) {
	f.Add("accuracy=0.5 step=3")
	f.Fuzz(func(t *testing.T, line string) {
		if step, metrics, ok := parseMetrics(line); ok && (step < 0 || len(metrics) == 0) {
			t.Errorf("%q gives step %d and %v", line, step, metrics)
		}
	})
}

func TestLongOutputIsTakenInPieces(t *testing.T) {
	var lines []int
	w := &lineWriter{to: func(line []byte) { lines = append(lines, len(line)) }}
	for range 10 {
		_, _ = w.Write(bytes.Repeat([]byte{'x'}, maxOutputLine/4))
	}
	_, _ = w.Write([]byte("\r\nab\n\n"))
	if want := []int{maxOutputLine, maxOutputLine, maxOutputLine / 2, 2, 0}; !reflect.DeepEqual(lines, want) {
		t.Errorf("lines have %v bytes, want %v", lines, want)
	}
}
