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

// The oldest processes that the job survived are forgotten; what the end of the job may be about is
// not, nor are schedulers, those that live, and those whose end is nobody's decision.
func TestWhatIsForgotten(t *testing.T) {
	var p processes
	add := func(role, host string, code control.Fate) *Node {
		n := &Node{Role: role, host: hosts.Host{Name: host}, process: uint32(len(p.nodes) + 1), ended: true, fate: fate{code: code}}
		p.nodes = append(p.nodes, n)
		return n
	}
	scheduler := add(roleScheduler, "d1", control.FateRestarted)
	first, culprit, lost := add(roleWorker, "d1", control.FateLost), add(roleWorker, "d1", control.FateLost), add(roleWorker, "d1", control.FateLost)
	ordinary, living := add(roleWorker, "d1", ""), add(roleWorker, "d1", control.FateRemoved)
	living.ended = false
	stays := []*Node{scheduler, first, culprit, lost, ordinary, living}
	for i := range maxEnded {
		add(roleWorker, fmt.Sprint("h", i), control.FateRemoved)
	}
	if !p.forget(first, culprit, lost) || len(p.nodes) != maxEnded+1 || p.forgotten != 5 || !slices.Equal(p.nodes[:6], stays) || p.nodes[6].host.Name != "h5" {
		t.Errorf("%d processes are left, %d forgotten, from %s on; want %d, 5, and those behind h4", len(p.nodes), p.forgotten, p.nodes[6].host.Name, maxEnded+1)
	}
	if p.forget() || p.forgotten != 5 {
		t.Errorf("%d processes were forgotten, want no more", p.forgotten)
	}
}

// Hosts that left are forgotten with the last process that is remembered of them.
func TestHostsThatLeftAreForgotten(t *testing.T) {
	h := history{members: map[string]bool{"d1": true, "d2": false, "d3": false}}
	h.forget([]*Node{{host: hosts.Host{Name: "d3"}}})
	if got, want := sortedKeys(h.members), []string{"d1", "d3"}; !slices.Equal(got, want) {
		t.Errorf("hosts %q are left, want %q", got, want)
	}
}

// Of the scheduler's events the newest are kept, and how many came before.
func TestOnlyTheNewestChangesAreKept(t *testing.T) {
	c := newCore(scriptSettings(arguments{"elastic": "1"}), time.Unix(1000, 0))
	c.stage = running
	for i := range maxChanges + 5 {
		c.takeWanted(&control.Wanted{Events: []control.Event{{Number: uint64(i + 1), Action: control.Ranks}}})
	}
	if len(c.history.changes) != maxChanges || c.history.leftOut != 5 || c.history.changes[0].Number != 6 || c.history.changes[maxChanges-1].Number != maxChanges+5 {
		t.Errorf("%d events from %d on are kept, %d left out; want %d from 6 on, 5", len(c.history.changes), c.history.changes[0].Number, c.history.leftOut, maxChanges)
	}
}

// That a worker is slow is no change of the job: nothing is started or stopped, and the result does
// not list it.
func TestThatAWorkerIsSlowChangesNothing(t *testing.T) {
	c := newCore(scriptSettings(arguments{"elastic": "1"}), time.Unix(1000, 0))
	c.stage = running
	c.out.take()
	for i, action := range []string{control.BecameSlow, control.NotSlow} {
		e := control.Event{Number: uint64(i + 1), Action: action, Host: "d1", Role: control.Worker, Process: 3, Reason: "worker 0 on d1"}
		c.takeWanted(&control.Wanted{Events: []control.Event{e}})
		if did := c.out.take(); len(did) != 0 || len(c.history.changes) != 0 {
			t.Errorf("%s: got the actions %v and the changes %v, want none", action, did, c.history.changes)
		}
	}
}

func TestALongLastLineIsCut(t *testing.T) {
	n := &Node{}
	if n.finish(ended{last: strings.Repeat("x", 9<<10)}); len(n.Last) != 8<<10 {
		t.Errorf("%d bytes are kept of a last line, want %d", len(n.Last), 8<<10)
	}
}
