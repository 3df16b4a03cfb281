package scheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// The cuts of an epoch go out with every membership, which must fit a frame: a job whose epoch was
// divided too often fails, and says so.
func TestAnEpochIsDividedSoOftenAndNoMore(t *testing.T) {
	for _, c := range []struct {
		before int // numbers in the epoch's cuts so far
		want   bool
	}{{0, true}, {maxUsed - 3, true}, {maxUsed - 2, true}, {maxUsed - 1, false}, {maxUsed, false}} {
		core := NewCore(Settings{Job: "j", Workers: 2, Servers: 1, Heartbeat: time.Second, Lease: 10 * time.Second, StartTimeout: time.Minute}, time.Unix(0, 0))
		core.phase = wire.PhaseRunning
		for id := range uint64(2) {
			core.nodes = append(core.nodes, &node{Member: wire.Member{Node: 1 + id, Role: wire.RoleWorker, Rank: int32(id)}})
			core.shares, core.before = append(core.shares, 1+id), append(core.before, 0)
		}
		arrived := map[uint64]*wire.Arrive{1: {Epoch: 4, Steps: 2, Used: 10}, 2: {Epoch: 4, Steps: 2, Used: 12}}
		core.change = change{number: 9, arrived: arrived}
		core.division = wire.Division{Change: 8, Epoch: 4, Cuts: []wire.Cut{{Parts: 2, Used: make([]uint64, c.before)}}}
		_, got := core.divide()
		if got != c.want || (core.phase == wire.PhaseFailed) == c.want {
			t.Errorf("%d numbers and 2 more: got divided %v and phase %d, want divided %v", c.before, got, core.phase, c.want)
		}
		if cuts := core.division.Cuts; c.want && (len(cuts) != 2 || core.division.Change != 9 || cuts[1].Used[0] != 10 || cuts[1].Used[1] != 12) {
			t.Errorf("%d numbers and 2 more: got division %d with %d cuts", c.before, core.division.Change, len(cuts))
		}
		if want := "change 9: epoch 4 was divided 2 times, into 60001 parts in all, want at most 60000"; c.before == maxUsed-1 && !strings.Contains(core.reason, want) {
			t.Errorf("the job failed with %q, want %q", core.reason, want)
		}
	}
}
