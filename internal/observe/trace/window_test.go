package trace

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// A followed is a Follower on fake time, whose clock is behind the scheduler's.
type followed struct {
	*Follower
	t *testing.T
	r *Recorder
}

const behind = 7 * time.Second

func follow(t *testing.T, worker bool) *followed {
	r := NewRecorder(telemetry.NewClock())
	return &followed{NewFollower(r, worker), t, r}
}

// window is one that starts in a second.
func (f *followed) window(id uint64, steps int, limit time.Duration) Window {
	return Window{ID: id, StartAt: f.r.Now() + int64(behind) + int64(time.Second), Steps: steps, Limit: limit}
}

// step is a step of a second.
func (f *followed) step() {
	time.Sleep(time.Second)
	f.r.StepDone()
}

func (f *followed) want(window uint64, spans int) Recording {
	f.t.Helper()
	r, ok := f.Take(f.r.Now(), false)
	if ok != (window != 0) || r.Window != window || len(r.Spans) != spans {
		f.t.Fatalf("got %t, %d spans of window %d; want %d of window %d", ok, len(r.Spans), r.Window, spans, window)
	}
	return r
}

func (f *followed) done() bool {
	select {
	case <-f.Done():
		return true
	default:
		return false
	}
}

func TestWorkerRecordsItsSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, true)
		f.want(0, 0)
		begin := f.r.Now()
		time.Sleep(time.Second / 2)
		w := f.window(5, 2, time.Minute)
		f.Follow(w, behind)

		// This step is under way when the window is known.
		f.step()
		for k := range 3 {
			// Each heartbeat says so.
			f.Follow(w, behind+time.Duration(k))
			f.want(0, 0)
			f.step()
		}
		for !f.done() {
			f.step()
		}
		r := f.want(5, 3)
		for _, s := range r.Spans {
			if s.Begin < begin+int64(3*time.Second/2) || s.End-s.Begin != int64(time.Second) {
				t.Errorf("step %d begins %v after the begin and takes %v; want it within the window, and whole", s.Step, time.Duration(s.Begin-begin), time.Duration(s.End-s.Begin))
			}
		}

		// The heartbeats say so until the scheduler has the spans.
		f.Follow(w, behind)
		f.Follow(Window{}, behind)
		f.step()
		f.want(0, 0)
		if _, ok := f.Until(); ok || f.r.On() {
			t.Error("it still records")
		}
	})
}

// A server goes on until the scheduler says that all workers are done; whoever is cut off from it,
// until the time is up.
func TestServerRecordsUntilTheWindowIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cut := range []bool{false, true} {
			f := follow(t, false)
			w := f.window(8, 2, 10*time.Second)
			f.Follow(w, behind)
			for range 5 {
				time.Sleep(time.Second)
				f.r.Add(Span{Kind: Round, Begin: f.r.Now(), End: f.r.Now()})
				f.want(0, 0)
			}
			if cut {
				until, ok := f.Until()
				if left := until - f.r.Now(); !ok || left != int64(6*time.Second) {
					t.Errorf("it ends in %v, want 6 s", time.Duration(left))
				}
				time.Sleep(6 * time.Second)
			} else {
				f.Follow(Window{}, behind)
				if !f.done() {
					t.Error("it still records")
				}
			}
			f.want(8, 5)
			f.want(0, 0)
		}
	})
}

func TestWindowsOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, false)
		add := func() { f.r.Add(Span{Kind: Round, Begin: f.r.Now() + 1e10, End: f.r.Now() + 1e10}) }
		f.Follow(f.window(1, 2, time.Minute), behind)
		add()

		// The scheduler was started again: nobody wants the first one's spans.
		next := f.window(2, 2, time.Minute)
		f.Follow(next, behind)
		add()
		add()
		f.want(0, 0)
		f.Follow(Window{}, behind)
		f.want(2, 2)
		f.Follow(next, behind)
		f.want(0, 0)
		f.Follow(f.window(3, 2, time.Minute), behind)
		add()
		if r, ok := f.Take(f.r.Now(), true); !ok || r.Window != 3 || len(r.Spans) != 1 {
			t.Errorf("the node ends: got %t, %+v", ok, r)
		}
	})
}

func TestWindowsHaveRoomByTheirSteps(t *testing.T) {
	for _, c := range []struct {
		worker      bool
		steps, room int
	}{{true, 0, spansOfServer}, {true, 5, DefaultSpans}, {true, 30, 31 * spansPerStep}, {true, 1 << 30, mostSpans}, {false, 5, spansOfServer}} {
		f := follow(t, c.worker)
		f.Follow(f.window(1, c.steps, time.Minute), 0)
		if got := len(f.capture.slots); got != c.room {
			t.Errorf("worker %t, %d steps: room for %d spans, want %d", c.worker, c.steps, got, c.room)
		}
		f.Take(0, true)
	}
}
