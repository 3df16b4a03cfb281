package control

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Metrics are what a program says of itself by a line of its standard output that has nothing but
// name=number, one of them the step:
//
//	accuracy=0.91 loss=0.3 step=5
type Metrics struct {
	Step   int                `json:"step"`
	Values map[string]float64 `json:"values"` // without the step
}

// maxMetrics bounds the names in one line.
const maxMetrics = 256

// maxStep is the largest integer of which a float64 has all digits.
const maxStep = 1 << 53

// ParseMetrics reads such a line. Commas may stand behind the numbers, which may be infinite or
// NaN. A name that is there twice has its last value.
func ParseMetrics(line string) (m Metrics, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 2 || len(fields) > maxMetrics {
		return Metrics{}, false
	}
	m.Values = make(map[string]float64)
	stepped := false
	for _, f := range fields {
		name, text, is := strings.Cut(strings.TrimSuffix(f, ","), "=")
		x, err := strconv.ParseFloat(text, 64)
		if !is || name == "" || err != nil && !math.IsInf(x, 0) {
			return Metrics{}, false
		}
		if name == "step" {
			if stepped || x != math.Trunc(x) || x < 0 || x > maxStep {
				return Metrics{}, false
			}
			m.Step, stepped = int(x), true
			continue
		}
		m.Values[name] = x
	}
	return m, stepped && len(m.Values) > 0
}

// WithoutStep says whether a line would have metrics if a step were added.
func WithoutStep(line string) bool {
	if strings.Contains(line, "step=") {
		return false
	}
	_, ok := ParseMetrics(line + " step=0")
	return ok
}

// A MetricsReader finds the metrics in the lines of a job's processes: those of worker 0. The zero
// value is ready.
type MetricsReader struct {
	// within says that the rest of a long line follows.
	within bool
}

// Read takes a line. Lines that came in pieces have no metrics.
func (r *MetricsReader) Read(l Line) (m Metrics, ok bool) {
	if l.Role != Worker || l.Rank != 0 || l.Stream != Stdout {
		return Metrics{}, false
	}
	piece := r.within || l.More
	if r.within = l.More; piece {
		return Metrics{}, false
	}
	return ParseMetrics(l.Text)
}

func (m *Metrics) check() error {
	if m.Step < 0 || m.Step > maxStep || len(m.Values) == 0 || len(m.Values) > maxMetrics {
		return fmt.Errorf("control: result: metrics of step %d with %d values: want a step from 0 to 2^53, and 1 to %d values", m.Step, len(m.Values), maxMetrics)
	}
	for name, x := range m.Values {
		if name == "" || name == "step" || math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("control: result: metric %q is %g: want a name other than step, and a finite number", name, x)
		}
	}
	return nil
}
