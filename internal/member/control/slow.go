package control

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// A Slow says that the others waited for a worker. See telemetry.FindSlow for the rule.
type Slow struct {
	Node uint64 `json:"node"`
	Rank int32  `json:"rank"`
	Host string `json:"host"`
	// Share is, of the rounds within the time in which one contribution came last by far, the part in
	// which it was this worker's.
	Share float64 `json:"share"`
	// Rounds is how many a shard had within the time: the mean of all shards.
	Rounds uint64 `json:"rounds"`
	// Gap is, in seconds, the mean time that it came after the last but one, or for which the others
	// waited if that is less.
	Gap float64 `json:"gap"`
	// Steps is how many the job made within the time, which is Seconds.
	Steps   float64 `json:"steps"`
	Seconds float64 `json:"seconds"`
	// StepSeconds is the mean time of a step of the job, of which Gap is a part.
	StepSeconds float64 `json:"step_seconds"`
	// Cause is the part of its steps that is longer than that of the others: SlowCompute, SlowData or
	// SlowNetwork; empty: none.
	Cause string `json:"cause"`
	// Ratio is its time in Cause over the median of the others; 0: not known.
	Ratio float64 `json:"ratio,omitempty"`
}

// The parts of a step that make a worker slow.
const (
	// SlowCompute is the worker's own work: all but waiting for the store and for data, and
	// checkpoints.
	SlowCompute = telemetry.CauseCompute
	SlowData    = telemetry.CauseData
	// SlowNetwork is the rest: neither of the others is longer.
	SlowNetwork = telemetry.CauseNetwork
)

// String is a sentence without its full stop: worker 3 on h2 is slow: last in 94 % of the last 310
// rounds, 41 ms after the others (12 % of a step); its compute takes 1.31 times the others'.
func (s Slow) String() string {
	text := fmt.Sprintf("worker %d on %s is slow: last in %.0f %% of the last %d rounds, %s after the others", s.Rank, s.Host, 100*s.Share, s.Rounds, span(s.Gap))
	if s.StepSeconds > 0 {
		text += fmt.Sprintf(" (%.0f %% of a step)", 100*s.Gap/s.StepSeconds)
	}
	times := fmt.Sprintf("takes %.2f times the others'", s.Ratio)
	if s.Ratio > 100 || s.Ratio == 0 {
		times = "takes far longer than the others'"
	}
	switch s.Cause {
	case SlowCompute:
		text += "; its compute " + times
	case SlowData:
		text += "; its wait for data " + times
	case SlowNetwork:
		text += "; its compute and its data take no longer than the others', so its network is slow or its host is busy"
	}
	return text
}

// span is a time in seconds as people say it.
func span(seconds float64) string {
	d := time.Duration(seconds * 1e9)
	for _, unit := range []time.Duration{time.Second, time.Millisecond} {
		switch {
		case d >= 10*unit:
			return fmt.Sprintf("%.0f %s", float64(d)/float64(unit), units[unit])
		case d >= unit:
			return fmt.Sprintf("%.1f %s", float64(d)/float64(unit), units[unit])
		}
	}
	return fmt.Sprintf("%d µs", d.Microseconds())
}

var units = map[time.Duration]string{time.Second: "s", time.Millisecond: "ms"}

func checkSlow(of string, list []Slow) error {
	for _, s := range list {
		for _, x := range []float64{s.Share, s.Gap, s.Steps, s.Seconds, s.StepSeconds, s.Ratio} {
			if !(x >= 0 && x <= math.MaxInt32) {
				return fmt.Errorf("control: %s: slow node %d: %g, want 0 to %d", of, s.Node, x, math.MaxInt32)
			}
		}
		if !slices.Contains([]string{"", SlowCompute, SlowData, SlowNetwork}, s.Cause) {
			return fmt.Errorf("control: %s: slow node %d: cause %q is not known", of, s.Node, s.Cause)
		}
		if s.Rank < -1 || s.Rank > maxRank {
			return fmt.Errorf("control: %s: slow node %d: rank %d, want -1 to %d", of, s.Node, s.Rank, maxRank)
		}
	}
	return nil
}
