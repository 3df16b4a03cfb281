package ctl

import (
	"math"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/metrics"
)

// speedOver is the time of which a speed is the mean, at most.
const speedOver = time.Minute

// A speed says how a worker trains. What is not known is NaN.
type speed struct {
	// examples is how many it trains a second.
	examples float64

	// loss is that of the newest step.
	loss float64
}

// askSpeeds asks how the workers train; nothing is known of those that have not said.
func askSpeeds(ask func(control.Request, control.Answer) error) (map[uint64]speed, error) {
	var now control.Telemetry
	if err := ask(control.Request{Op: control.OpTelemetry, Metrics: []string{"loss"}}, &now); err != nil {
		return nil, err
	}

	// The series begins a minute ago: of the whole job its points may be minutes apart.
	var past control.Series
	since := max(1, now.NowMillis-speedOver.Milliseconds())
	if err := ask(control.Request{Op: control.OpSeries, Metrics: []string{"examples"}, SinceMillis: since}, &past); err != nil {
		return nil, err
	}
	return speeds(past, now), nil
}

// speeds makes them of the number of examples within the last minute and the newest losses.
func speeds(past control.Series, now control.Telemetry) map[uint64]speed {
	all := map[uint64]speed{}
	for _, n := range now.Nodes {
		s := speed{math.NaN(), math.NaN()}
		if len(n.Values) > 0 {
			s.loss = float64(n.Values[0])
		}
		all[n.Node] = s
	}
	for _, n := range past.Nodes {
		if s, ok := all[n.Node]; ok && len(n.Values) > 0 {
			s.examples = growth(n.Values[0]) * 1000 / float64(past.StepMillis)
			all[n.Node] = s
		}
	}
	return all
}

// growth is how much a counter grows from one point to the next, on average.
func growth(points []control.Number) float64 {
	first, last := -1, -1
	for i, v := range points {
		if !math.IsNaN(float64(v)) {
			if last = i; first < 0 {
				first = i
			}
		}
	}
	if first == last {
		return math.NaN()
	}
	return float64(points[last]-points[first]) / float64(last-first)
}

// cells are those of a worker's row.
func (s speed) cells() (examples, loss any) {
	if !math.IsNaN(s.examples) {
		examples = int(s.examples + 0.5)
	}
	if !math.IsNaN(s.loss) {
		loss = metrics.Fixed(s.loss)
	}
	return examples, loss
}
