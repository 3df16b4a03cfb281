package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

// The oldest processes that the job survived are forgotten, and hosts that left with them; what the
// end of the job may be about is not.
func TestWhatIsForgotten(t *testing.T) {
	c := &core{members: make(map[string]bool)}
	add := func(role, host string, code control.Fate) *Node {
		n := &Node{Role: role, host: hosts.Host{Name: host}, process: uint32(len(c.nodes) + 1), ended: true, fate: fate{code: code}}
		c.nodes = append(c.nodes, n)
		return n
	}
	scheduler := add(roleScheduler, "d1", control.FateRestarted)
	c.first, c.culprit, c.lost = add(roleWorker, "d1", control.FateLost), add(roleWorker, "d1", control.FateLost), add(roleWorker, "d1", control.FateLost)
	ordinary, living := add(roleWorker, "d1", ""), add(roleWorker, "d1", control.FateRemoved)
	living.ended = false
	stays := []*Node{scheduler, c.first, c.culprit, c.lost, ordinary, living}
	for i := range maxEnded {
		add(roleWorker, fmt.Sprint("h", i), control.FateRemoved)
	}
	for i := range 8 {
		c.members[fmt.Sprint("h", i)] = i == 1
	}
	c.forget()
	if len(c.nodes) != maxEnded+1 || c.forgotten != 5 || !slices.Equal(c.nodes[:6], stays) || c.nodes[6].host.Name != "h5" {
		t.Errorf("%d processes are left, %d forgotten, from %s on; want %d, 5, and those behind h4", len(c.nodes), c.forgotten, c.nodes[6].host.Name, maxEnded+1)
	}
	if got, want := sortedKeys(c.members), []string{"h1", "h5", "h6", "h7"}; !slices.Equal(got, want) {
		t.Errorf("hosts %q are left, want %q", got, want)
	}
	if c.forget(); c.forgotten != 5 {
		t.Errorf("%d processes were forgotten, want no more", c.forgotten)
	}
}

// Of the scheduler's events the newest are kept, and how many came before.
func TestOnlyTheNewestChangesAreKept(t *testing.T) {
	c := newCore(scriptSettings(arguments{"elastic": "1"}), time.Unix(1000, 0))
	c.stage = running
	for i := range maxChanges + 5 {
		c.takeWanted(&control.Wanted{Events: []control.Event{{Number: uint64(i + 1), Action: control.Ranks}}})
	}
	if len(c.changes) != maxChanges || c.changesLeftOut != 5 || c.changes[0].Number != 6 || c.changes[maxChanges-1].Number != maxChanges+5 {
		t.Errorf("%d events from %d on are kept, %d left out; want %d from 6 on, 5", len(c.changes), c.changes[0].Number, c.changesLeftOut, maxChanges)
	}
}

// That a worker is slow is no change of the job: nothing is started or stopped, and the result does
// not list it.
func TestThatAWorkerIsSlowChangesNothing(t *testing.T) {
	c := newCore(scriptSettings(arguments{"elastic": "1"}), time.Unix(1000, 0))
	c.stage = running
	c.actions()
	for i, action := range []string{control.BecameSlow, control.NotSlow} {
		e := control.Event{Number: uint64(i + 1), Action: action, Host: "d1", Role: control.Worker, Process: 3, Reason: "worker 0 on d1"}
		c.takeWanted(&control.Wanted{Events: []control.Event{e}})
		if did := c.actions(); len(did) != 0 || len(c.changes) != 0 {
			t.Errorf("%s: got the actions %v and the changes %v, want none", action, did, c.changes)
		}
	}
}

func TestALongLastLineIsCut(t *testing.T) {
	n := &Node{}
	if n.finish(ended{last: strings.Repeat("x", 9<<10)}); len(n.Last) != 8<<10 {
		t.Errorf("%d bytes are kept of a last line, want %d", len(n.Last), 8<<10)
	}
}
