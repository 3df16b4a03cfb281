package scheduler

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// The cuts of an epoch go out with every membership, which must fit a frame: a job whose epoch was
// divided too often fails, and says so.
func TestAnEpochIsDividedSoOftenAndNoMore(t *testing.T) {
	for _, c := range []struct {
		// before is how many numbers the epoch's cuts have.
		before int
		want   bool
	}{{0, true}, {maxUsed - 3, true}, {maxUsed - 2, true}, {maxUsed - 1, false}, {maxUsed, false}} {
		out, r := running(2, 0)
		change := newChanger(settingsOf(2, 0))
		change.begins(r.workers())
		change.pending = pendingChange{number: 9, arrived: map[uint64]*wire.Arrive{1: {Epoch: 4, Steps: 2, Used: 10}, 2: {Epoch: 4, Steps: 2, Used: 12}}}
		change.parts.division = wire.Division{Change: 8, Epoch: 4, Cuts: []wire.Cut{{Parts: 2, Used: make([]uint64, c.before)}}}
		_, failure := change.divide(out, r)
		if got := failure == nil; got != c.want {
			t.Errorf("%d numbers and 2 more: got divided %v, want %v", c.before, got, c.want)
		}
		d := change.parts.division
		if c.want && (len(d.Cuts) != 2 || d.Change != 9 || d.Cuts[1].Used[0] != 10 || d.Cuts[1].Used[1] != 12) {
			t.Errorf("%d numbers and 2 more: got division %d with %d cuts", c.before, d.Change, len(d.Cuts))
		}
		if want := "change 9: epoch 4 was divided 2 times, into 60001 parts in all, want at most 60000"; c.before == maxUsed-1 && !strings.Contains(failure.String(), want) {
			t.Errorf("the job failed with %q, want %q", failure.String(), want)
		}
	}
}
