package tune

import (
	"fmt"
	"math"
	"strings"
)

// A Mode says which values of the metric are good.
type Mode uint8

const (
	// Auto, the zero Mode, is Max. For a metric whose name suggests that it is
	// minimized (loss, error), it is an error that asks for a Mode.
	Auto Mode = iota
	// Max wants large values.
	Max
	// Min wants small values.
	Min
)

// String returns the mode as it is written.
func (m Mode) String() string {
	switch m {
	case Auto:
		return "auto"
	case Max:
		return "max"
	case Min:
		return "min"
	default:
		return fmt.Sprintf("Mode(%d)", uint8(m))
	}
}

// ParseMode reads "max" or "min"; "" is Auto.
func ParseMode(s string) (Mode, error) {
	switch s {
	case "", "auto":
		return Auto, nil
	case "max":
		return Max, nil
	case "min":
		return Min, nil
	default:
		return Auto, fmt.Errorf("tune: mode %q: want max or min", s)
	}
}

// Score orients a value of the metric so that larger is better. A value that is
// not finite has the score -Inf.
func (m Mode) Score(value float64) float64 {
	switch {
	case math.IsNaN(value) || math.IsInf(value, 0):
		return math.Inf(-1)
	case m == Min:
		return -value
	default:
		return value
	}
}

// small are parts of names of metrics to minimize.
var small = []string{"loss", "error", "regret", "perplexity", "rmse", "mse", "mae", "latency"}

// resolve returns the mode to use for the metric.
func (m Mode) resolve(metric string) (Mode, error) {
	if m != Auto {
		return m, nil
	}
	for _, s := range small {
		if strings.Contains(strings.ToLower(metric), s) {
			return Auto, fmt.Errorf("tune: metric %q looks like one to minimize: set the mode (Config.Mode, mode: in study.yaml) to min, or to max to maximize it", metric)
		}
	}
	return Max, nil
}
