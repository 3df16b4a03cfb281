package tune

import (
	"time"

	"github.com/paragon-train/paragon/tune/internal/checkpoints"
)

// runState is the internal state of a trial's attempts.
type runState struct {
	// active says that an attempt is under way.
	active bool
	// told is the answer to the attempt: anything but Continue and "" ends it.
	told Action
	// order is the answer to the next report; nil: the report is judged.
	order *TrialDecision
	// since is At of the attempt's start, and before the trial's Elapsed by then.
	since, before time.Duration
	// restore is where the next attempt continues from.
	restore checkpoints.Name
	// cut says that the newest attempt was interrupted.
	cut bool
	// changed says that the parameters changed since the last start.
	changed bool
	// profile is the newest of an allocation.
	profile string
}
