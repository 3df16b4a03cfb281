package hostsum

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// alonePush is what a worker says that makes a round by itself.
func (r *rig) alonePush(node, round uint64) *wire.Push {
	return &wire.Push{Origin: r.push(node, round).Origin, Round: round}
}

func (r *rig) pushAlone(node, round uint64) {
	r.t.Helper()
	if err := r.s.PushAlone(r.alonePush(node, round)); err != nil {
		r.t.Errorf("node %d pushes alone in round %d: %v", node, round, err)
	}
}

// A worker that pushes for itself is not waited for, whether it says so before the others come or
// while they wait, until it comes again.
func TestAWorkerThatPushesForItselfIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.end()
		began := time.Now()
		wantAlone := func(round uint64, errs []error) {
			t.Helper()
			for i, err := range errs {
				if codeOf(err) != wire.CodePushAlone || !strings.Contains(err.Error(), "worker 5 on h (node 12, pid 12) pushes for itself") {
					t.Errorf("round %d, push %d: got %v, want code %d that names worker 5", round, i, err, wire.CodePushAlone)
				}
			}
		}
		time.AfterFunc(time.Millisecond, func() { r.pushAlone(12, 0) })
		_, errs := r.all(r.push(10, 0), r.push(11, 0))
		wantAlone(0, errs)
		for round := uint64(1); round < 6; round++ { // more rounds than a leader keeps
			_, errs = r.all(r.push(10, round), r.push(11, round))
			wantAlone(round, errs)
		}
		if _, errs := r.all(r.push(12, 5)); codeOf(errs[0]) != wire.CodePushAlone {
			t.Errorf("round 5, in which the others push for themselves: got %v, want code %d", errs[0], wire.CodePushAlone)
		}
		if _, errs := r.all(r.push(10, 6), r.push(12, 6), r.push(11, 6)); errors.Join(errs...) != nil {
			t.Errorf("a round to which it comes again: got %v", errs)
		}
		if took := time.Since(began); took > time.Millisecond {
			t.Errorf("took %v, want no wait", took)
		}
	})
}

// What a worker said before it came again, and that arrives late, keeps no later round from coming
// together.
func TestALatePushAloneIsOfItsRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.end()
		time.AfterFunc(time.Millisecond, func() { r.pushAlone(12, 3) })
		var last sync.WaitGroup
		last.Go(func() {
			time.Sleep(2 * time.Millisecond)
			var v wire.Value
			if _, err := r.s.Call(t.Context(), r.push(11, 4), &v, make([]byte, 4*rigValues), of(11)); err != nil {
				t.Errorf("the last of round 4: got %v", err)
			}
		})
		if _, errs := r.all(r.push(12, 4), r.push(10, 4)); errors.Join(errs...) != nil {
			t.Errorf("round 4: got %v", errs)
		}
		last.Wait()
		r.pushAlone(12, 3)
		if _, errs := r.all(r.push(12, 5), r.push(10, 5), r.push(11, 5)); errors.Join(errs...) != nil {
			t.Errorf("round 5: got %v", errs)
		}
	})
}

// Who pushes alone is checked as who pushes with the others is.
func TestAPushAloneIsChecked(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(p *wire.Push)
		want wire.Code
	}{
		{"older generation", func(p *wire.Push) { p.Generation = 0 }, wire.CodeStaleGeneration},
		{"another host's worker", func(p *wire.Push) { p.Node = 13 }, wire.CodePushAlone},
		{"another rank", func(p *wire.Push) { p.Rank = 1 }, wire.CodePushAlone},
		{"a key that is not known yet", func(p *wire.Push) { p.Key = 999 }, wire.CodeBusy},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			defer r.end()
			p := r.alonePush(12, 0)
			c.edit(p)
			if err := r.s.PushAlone(p); codeOf(err) != c.want {
				t.Errorf("%s: got %v, want code %v", c.name, err, c.want)
			}
			if _, errs := r.all(r.push(10, 0), r.push(11, 0), r.push(12, 0)); errors.Join(errs...) != nil {
				t.Errorf("%s: the round after it: got %v", c.name, errs)
			}
		})
	}
}

// A worker that pushes a round for itself still comes to a later one, which others have begun, and
// what it said of an older one than its newest push counts for no other.
func TestAPushAloneKeepsLaterRoundsTogether(t *testing.T) {
	for _, first := range []uint64{10, 12} { // begins round 4
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			defer r.end()
			began := time.Now()
			var wg sync.WaitGroup
			push := func(node, round uint64) {
				wg.Go(func() {
					if err := r.call(r.push(node, round)); err != nil {
						t.Errorf("node %d begins round 4: node %d, round %d: got %v", first, node, round, err)
					}
				})
				synctest.Wait()
			}
			push(first, 4)
			r.pushAlone(12, 3)
			if first == 12 { // it has come to round 4, so round 5 waits for it
				push(10, 5)
				push(10, 4)
			} else {
				push(12, 4)
				push(10, 5)
			}
			push(11, 4)
			push(12, 5)
			push(11, 5)
			wg.Wait()
			if took := time.Since(began); took != 0 || len(r.sent) != 2 {
				t.Errorf("node %d begins round 4: %d sums after %v, want 2 at once", first, len(r.sent), took)
			}
		})
	}
}

// A worker that has come to a round and pushes a later one for itself stays in that round.
func TestAPushAloneLeavesRoundsToWhichTheWorkerCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.end()
		time.AfterFunc(time.Millisecond, func() {
			r.pushAlone(12, 4)
			for _, node := range []uint64{10, 11} {
				go r.call(r.push(node, 3))
			}
		})
		if err := r.call(r.push(12, 3)); err != nil || len(r.sent) != 1 {
			t.Errorf("round 3: got %v and %d sums, want one of all", err, len(r.sent))
		}
	})
}
