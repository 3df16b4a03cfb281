package tune

import (
	"slices"
	"time"

	"github.com/paragon-train/paragon/tune/internal/checkpoints"
)

// A history is the trials of a study, by number.
type history []*Trial

// checkpoints are those of all trials.
func (h history) checkpoints() (all []checkpoints.Saved) {
	for _, t := range h {
		for _, c := range t.Checkpoints {
			all = append(all, c.saved(t.Number))
		}
	}
	return all
}

// needed are the checkpoints that attempts continue from, now or later.
func (h history) needed() map[checkpoints.Name]bool {
	needed := map[checkpoints.Name]bool{}
	for _, t := range h {
		if t.run.restore.Step >= 0 && (t.run.active || !t.State.Final()) {
			needed[t.run.restore] = true
		}
	}
	return needed
}

// leftOver are the trials that a process which is gone has left: those whose attempts were cut off,
// or that were stopped with the study, and those that have failed.
func (h history) leftOver(queue *startQueue) (cut, failed []int) {
	for _, t := range h {
		switch t.State {
		case Running, Stopped:
			cut = append(cut, t.Number)
		case Pending:
			if !queue.has(t.Number) || t.run.cut {
				cut = append(cut, t.Number)
			}
		case Failed:
			failed = append(failed, t.Number)
		}
	}
	return cut, failed
}

// dividing are the trials among which nodes are divided: those with an attempt that was not told to
// end.
func (h history) dividing() (all []int) {
	for _, t := range h {
		if t.run.active && t.run.told == "" && t.State == Running {
			all = append(all, t.Number)
		}
	}
	return all
}

// trialTime is how long a new trial is going to train: the median of those that trained to their
// end. elapsed is the time on the study's clock, for those that run. As long as there is none, it is the longest time that any trial has trained so far.
func (h history) trialTime(elapsed time.Duration) time.Duration {
	var whole []time.Duration
	var longest time.Duration
	for _, t := range h {
		if t.Origin == FromElsewhere {
			continue
		}
		trained := t.Elapsed
		if t.run.active {
			trained = t.run.before + elapsed - t.run.since
		}
		longest = max(longest, trained)
		if t.State == Completed {
			whole = append(whole, t.Elapsed)
		}
	}
	if len(whole) == 0 {
		return longest
	}
	return medianTime(whole)
}

// firstReportTime is the median time of first reports, 0 without any.
func (h history) firstReportTime() time.Duration {
	var all []time.Duration
	for _, t := range h {
		if len(t.Reports) > 0 && t.Origin != FromElsewhere {
			all = append(all, t.Reports[0].Elapsed)
		}
	}
	return medianTime(all)
}

// rungAfter is the least step after this one at which a trial was paused or completed. If none was,
// it is twice the step.
func (h history) rungAfter(step int) int {
	next := 0
	for _, t := range h {
		from, _ := t.find(step + 1)
		for i, r := range t.Reports[from:] {
			ended := t.State == Completed && from+i == len(t.Reports)-1
			if (ended || r.Action == Pause) && (next == 0 || r.Step < next) {
				next = r.Step
				break
			}
		}
	}
	if next == 0 {
		return max(2*step, step+1)
	}
	return next
}

// medianTime is the upper median; 0 of none.
func medianTime(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}
