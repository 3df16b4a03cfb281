// Package metricstest reads what a program under test prints of its metrics.
package metricstest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
)

// Printed runs a program's work in this process and returns the lines of metrics that it printed on
// os.Stdout, as a search reads them. Nothing else of the test may print meanwhile.
func Printed(t *testing.T, work func()) []control.Metrics {
	t.Helper()
	return Metrics(Text(t, work))
}

// Text runs a program's work in this process and returns what it printed on os.Stdout. Nothing else
// of the test may print meanwhile.
func Text(t *testing.T, work func()) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before := os.Stdout
	os.Stdout = f
	defer func() { os.Stdout = before }()
	work()
	text, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Metrics are the lines of metrics in a text, as a search reads them.
func Metrics(text string) (all []control.Metrics) {
	for line := range strings.Lines(text) {
		if m, ok := control.ParseMetrics(line); ok {
			all = append(all, m)
		}
	}
	return all
}

// WantSteps checks that there is a line with these metrics after each of so many epochs, and no
// other line.
func WantSteps(t *testing.T, all []control.Metrics, epochs int, names ...string) {
	t.Helper()
	if len(all) != epochs {
		t.Fatalf("got %d lines of metrics, want one after each of %d epochs: %+v", len(all), epochs, all)
	}
	for i, m := range all {
		if m.Step != i+1 {
			t.Errorf("line %d: got step %d, want %d", i, m.Step, i+1)
		}
		for _, name := range names {
			if _, ok := m.Values[name]; !ok {
				t.Errorf("line %d: got %v, want %s", i, m.Values, name)
			}
		}
	}
}
