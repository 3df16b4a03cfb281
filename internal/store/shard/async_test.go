package shard

import (
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

func async(t *testing.T, workers int, value ...float32) *Shard {
	t.Helper()
	s := dense(t, workers, value...)
	if err := s.SetMode(wire.ModeAsync); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAsyncAppliesEachPushAtOnceAndOnce(t *testing.T) {
	s := async(t, 2, 0)
	setOptimizer(t, s, optim.Config{Name: "test", LearningRate: 1})
	mustPush(t, s, contribution(s, 0, 0, 1), Held)
	wantValue(t, s, 1, 1)
	mustPush(t, s, contribution(s, 0, 1, 1), Held)
	mustPush(t, s, contribution(s, 0, 1, 1), Repeated)
	mustPush(t, s, contribution(s, 0, 0, 1), Repeated)
	wantValue(t, s, 2, 2)
	mustPush(t, s, contribution(s, 1, 1, 10), Ahead) // its first has not come
	mustPush(t, s, contribution(s, 1, 0, 10), Held)
	mustPush(t, s, contribution(s, 1, 1, 10), Held)
	wantValue(t, s, 4, 22)
	wantNothingHeld(t, s)
}

func TestAsyncPullHoldsToItsStaleness(t *testing.T) {
	for _, c := range []struct {
		staleness uint64
		others    int // pushes of the slowest before the pull of one with 5 ends
	}{{0, 5}, {1, 4}, {4, 1}, {5, 0}, {NoBound, 0}} {
		s := async(t, 3, 0)
		for i := range uint64(5) {
			mustPush(t, s, contribution(s, 0, i, 1), Held)
			mustPush(t, s, contribution(s, 2, i, 1), Held)
		}
		want := Want{Node: node(0), Seq: 5, Staleness: c.staleness}
		done := 0
		for ; ; done++ {
			v, w, err := s.Pull(want)
			if err != nil {
				t.Fatal(err)
			}
			if v != nil {
				v.Release()
				break
			}
			w.Cancel()
			if l := s.Laggards(want); len(l) != 1 || l[0].Rank != 1 || l[0].Done != uint64(done) {
				t.Fatalf("laggards: got %v, want rank 1 with %d", l, done)
			}
			mustPush(t, s, contribution(s, 1, uint64(done), 1), Held)
		}
		if done != c.others {
			t.Errorf("staleness %d: the pull ended after %d pushes of the slowest, want %d", c.staleness, done, c.others)
		}
	}
}

func TestAsyncPullContainsOwnPushes(t *testing.T) {
	s := async(t, 2, 0)
	_, w, _ := s.Pull(Want{Node: node(0), Seq: 1, Staleness: NoBound})
	if w == nil {
		t.Fatal("a pull overtook its own worker's push")
	}
	mustPush(t, s, contribution(s, 0, 0, 3), Held)
	<-w.Done()
	v, err := w.Result()
	if err != nil || v.Float32s()[0] != 3 {
		t.Fatalf("got %v, error %v; want 3", v, err)
	}
	v.Release()
}

func TestWorkerThatLeftNoLongerBoundsStaleness(t *testing.T) {
	s := async(t, 2, 0)
	mustPush(t, s, contribution(s, 0, 0, 1), Held)
	_, w, _ := s.Pull(Want{Node: node(0), Seq: 1, Staleness: 0})
	members(2, s, 0)(t)
	<-w.Done()
	if v, err := w.Result(); err != nil {
		t.Fatal(err)
	} else {
		v.Release()
	}
}

func TestModeIsFixedByTheFirstPush(t *testing.T) {
	s := dense(t, 1, 0)
	mustPush(t, s, contribution(s, 0, 0, 1), Held)
	if err := s.SetMode(wire.ModeSync); err != nil {
		t.Errorf("the same mode again: got %v", err)
	}
	if err := s.SetMode(wire.ModeAsync); codeOf(err) != wire.CodeConflict {
		t.Errorf("another mode: got %v, want code %d", err, wire.CodeConflict)
	}
}

func TestAsyncAverageIsOverTheNewestOfEach(t *testing.T) {
	s, err := New(Config{Name: "m", Form: wire.FormDense, Rule: wire.RuleAverage, Length: 1, Size: 1, Shards: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	setWorkers(t, s, 1, 2)
	if err := s.SetMode(wire.ModeAsync); err != nil {
		t.Fatal(err)
	}
	mustPush(t, s, contribution(s, 1, 0, 4), Held)
	wantValue(t, s, 1, 4)
	mustPush(t, s, contribution(s, 0, 0, 2), Held)
	wantValue(t, s, 2, 3)
	mustPush(t, s, contribution(s, 0, 1, 6), Held)
	wantValue(t, s, 3, 5)
	members(2, s, 0)(t)
	mustPush(t, s, at(2, contribution(s, 0, 2, 1)), Held)
	wantValue(t, s, 4, 1)
}
