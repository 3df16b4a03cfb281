package elastic

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/tune/internal/slots"
	"github.com/paragon-train/paragon/tune/jobs"
)

// elasticJobs are attempts of trials on nodes with so many slots each.
func elasticJobs(t *testing.T, n int, nodes ...jobs.NodeSlots) (set *Jobs, alloc *slots.Allocator, all []*Job) {
	t.Helper()
	set = &Jobs{}
	set.Changes()
	alloc, err := slots.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range nodes {
		if err := alloc.Add(slots.Node{Name: x.Node, Slots: x.Slots}); err != nil {
			t.Fatal(err)
		}
	}
	env := Env{Alloc: alloc, Suspect: func(string, error) {}, Logger: slog.New(slog.DiscardHandler)}
	for i := range n {
		all = append(all, set.Enter(env, i, 1, slots.Request{Workers: 1}))
	}
	return set, alloc, all
}

// look lets a job exchange units, and returns what its launcher is to be told.
func (j *Job) look(least int) jobs.Placement {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.exchange()
	return j.next(least)
}

func wantPlacement(t *testing.T, what string, got jobs.Placement, want string) {
	t.Helper()
	if got.String() != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

// A unit goes from one trial to the next when its worker has left, not when it was asked to.
func TestAUnitIsGivenBackWhenItsWorkerHasLeft(t *testing.T) {
	_, _, all := elasticJobs(t, 2, jobs.NodeSlots{Node: "a", Slots: 2})
	x, y := all[0], all[1]
	x.scale(jobs.Placement{{Node: "a", Replicas: 2}})
	wantPlacement(t, "both slots", x.look(1), "a=2")
	x.order.placement = jobs.Placement{{Node: "a", Replicas: 2}}
	var left []func()
	for number := range 2 {
		_, release, err := x.Hold(t.Context(), number, "a")
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, release)
	}
	x.scale(jobs.Placement{{Node: "a", Replicas: 1}})
	y.scale(jobs.Placement{{Node: "a", Replicas: 1}})
	wantPlacement(t, "the job that shrinks", x.look(1), "a=1")
	x.order.placement = jobs.Placement{{Node: "a", Replicas: 1}} // its launcher has taken it
	x.look(1)
	wantPlacement(t, "before the worker has left", y.look(1), "none")
	left[1]()
	x.look(1)
	wantPlacement(t, "after the worker has left", y.look(1), "a=1")
	left[1]() // again
	if u := y.env.Alloc.Usage()[0]; u.UsedSlots != 2 {
		t.Errorf("%d slots are in use, want 2", u.UsedSlots)
	}
}

// A job that moves keeps as many replicas as it needs until others have slots; two that wait for
// each other's slots give up.
func TestAJobThatMovesKeepsItsLeastReplicas(t *testing.T) {
	set, _, all := elasticJobs(t, 2, jobs.NodeSlots{Node: "a", Slots: 1}, jobs.NodeSlots{Node: "b", Slots: 1})
	for i, node := range []string{"a", "b"} {
		all[i].scale(jobs.Placement{{Node: node, Replicas: 1}})
		wantPlacement(t, "at first", all[i].look(1), node+"=1")
		all[i].order.placement = jobs.Placement{{Node: node, Replicas: 1}}
	}
	all[0].scale(jobs.Placement{{Node: "b", Replicas: 1}})
	all[1].scale(jobs.Placement{{Node: "a", Replicas: 1}})
	wantPlacement(t, "while b is in use", all[0].look(1), "a=1")
	wantPlacement(t, "while a is in use", all[1].look(1), "b=1")
	all[1].mu.Lock()
	all[1].stay("nobody moves")
	all[1].mu.Unlock()
	wantPlacement(t, "given up", all[1].state().On, "b=1")
	select {
	case why := <-set.Changes():
		if why != "the replicas of trial 1 could not be changed" {
			t.Errorf("a decision is due since %q", why)
		}
	default:
		t.Error("no decision is due after one that was given up")
	}
	set.Leave(all[1])
	wantPlacement(t, "when b is free", all[0].look(1), "b=1")
}

// A job that could start replicas on one host alone keeps those, and gives the slots of the other
// back.
func TestSlotsOfReplicasThatCouldNotStartAreGivenBack(t *testing.T) {
	_, _, all := elasticJobs(t, 2, jobs.NodeSlots{Node: "a", Slots: 2}, jobs.NodeSlots{Node: "b", Slots: 2})
	x, y := all[0], all[1]
	x.scale(jobs.Placement{{Node: "a", Replicas: 2}, {Node: "b", Replicas: 2}})
	x.order = order{x.look(1), time.Now(), underWay}
	for number := range 2 {
		if _, _, err := x.Hold(t.Context(), number, "a"); err != nil {
			t.Fatal(err)
		}
	}
	x.event(control.Event{Action: control.ScaleShort, Reason: "host b: no route to host"})
	wantPlacement(t, "what it counts as having", x.state().On, "a=2")
	x.order.placement = x.look(1) // its launcher is told so
	wantPlacement(t, "what its launcher is told", x.order.placement, "a=2")
	x.look(1)
	y.scale(jobs.Placement{{Node: "b", Replicas: 2}})
	wantPlacement(t, "another trial", y.look(1), "b=2")
}

func TestALostNodeTakesItsUnitsAlong(t *testing.T) {
	_, alloc, all := elasticJobs(t, 1, jobs.NodeSlots{Node: "a", Slots: 1}, jobs.NodeSlots{Node: "b", Slots: 2})
	x := all[0]
	x.scale(jobs.Placement{{Node: "a", Replicas: 1}, {Node: "b", Replicas: 2}})
	wantPlacement(t, "on both", x.look(1), "a=1,b=2")
	x.order.placement = jobs.Placement{{Node: "a", Replicas: 1}, {Node: "b", Replicas: 2}}
	_, release, err := x.Hold(t.Context(), 0, "b")
	if err != nil {
		t.Fatal(err)
	}
	if err := alloc.Lose("b"); err != nil {
		t.Fatal(err)
	}
	wantPlacement(t, "without b", x.look(1), "a=1")
	release()
	if all := alloc.Usage(); len(all) != 1 {
		t.Errorf("the nodes are %v, want a alone", all)
	}
}

// A worker waits for the slot that another one is about to leave, and not for ever.
func TestAWorkerWaitsForItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, all := elasticJobs(t, 1, jobs.NodeSlots{Node: "a", Slots: 1})
		x := all[0]
		x.scale(jobs.Placement{{Node: "a", Replicas: 1}})
		x.look(1)
		_, release, err := x.Hold(t.Context(), 0, "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := x.Hold(ctx, 1, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("two workers in one slot: %v", err)
		}
		go func() {
			time.Sleep(time.Second)
			release()
		}()
		held, _, err := x.Hold(t.Context(), 2, "a")
		if err != nil || held.GPUs == nil {
			t.Errorf("got %+v, %v, want the slot, and no GPU", held, err)
		}
	})
}
