package tune

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// A Metric is one reported number.
type Metric struct {
	Name  string
	Value float64
}

// Metrics are the numbers of one report, sorted by name.
type Metrics []Metric

// Get returns a number, and whether it was reported.
func (m Metrics) Get(name string) (float64, bool) {
	for _, x := range m {
		if x.Name == name {
			return x.Value, true
		}
	}
	return math.NaN(), false
}

// Names returns the names, sorted.
func (m Metrics) Names() []string {
	names := make([]string, len(m))
	for i, x := range m {
		names[i] = x.Name
	}
	return names
}

// Map returns the numbers by name.
func (m Metrics) Map() map[string]float64 {
	all := make(map[string]float64, len(m))
	for _, x := range m {
		all[x.Name] = x.Value
	}
	return all
}

// MetricsOf sorts what was reported.
func MetricsOf(reported map[string]float64) Metrics {
	m := make(Metrics, 0, len(reported))
	for name, value := range reported {
		m = append(m, Metric{name, value})
	}
	slices.SortFunc(m, func(a, b Metric) int {
		if a.Name < b.Name {
			return -1
		}
		return b2i(a.Name > b.Name)
	})
	return m
}

// maxMetrics bounds a report.
const maxMetrics = 1000

// validMetrics checks the names of a report's metrics, which are sorted.
func validMetrics(m Metrics) error {
	if len(m) == 0 {
		return errors.New("the report has no metrics")
	}
	if len(m) > maxMetrics {
		return fmt.Errorf("the report has %d metrics, want at most %d", len(m), maxMetrics)
	}
	for i, x := range m {
		if x.Name == "" || len(x.Name) > maxText || !utf8.ValidString(x.Name) {
			return fmt.Errorf("metric %.100q: want a name, in UTF-8, of at most %d bytes", x.Name, maxText)
		}
		if i > 0 && x.Name <= m[i-1].Name {
			return fmt.Errorf("metric %q after %q: want each once, sorted", x.Name, m[i-1].Name)
		}
	}
	return nil
}
