package pool

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/testing/alloctest"
)

func TestRunCallsEachPieceOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8} {
		p := New(threads)
		if p.Threads() != threads {
			t.Errorf("Threads() = %d, want %d", p.Threads(), threads)
		}
		for _, n := range []int{0, 1, 2, 3, 7, 100} {
			for range 200 {
				calls := make([]atomic.Int32, n)
				p.Run(n, func(i int) { calls[i].Add(1) })
				for i := range calls {
					if got := calls[i].Load(); got != 1 {
						t.Fatalf("%d threads, Run(%d): piece %d ran %d times, want 1", threads, n, i, got)
					}
				}
			}
		}
		p.Close()
		p.Close()
	}
}

// Helpers that went to sleep must be woken by the next Run and by Close.
func TestRunAfterHelpersFellAsleep(t *testing.T) {
	p := New(4)
	for range 20 {
		for _, h := range p.helpers {
			for !h.asleep.Load() {
				time.Sleep(time.Microsecond)
			}
		}
		var both, sum atomic.Int64

		// The run ends only when two threads take part.
		p.Run(2, func(i int) {
			both.Add(1)
			for both.Load() < 2 {
				time.Sleep(time.Microsecond)
			}
			sum.Add(int64(i) + 1)
		})
		if sum.Load() != 3 {
			t.Fatalf("sum of pieces %d, want 3", sum.Load())
		}
	}
	p.Close()
}

func TestPanicReachesTheCallerAndThePoolStaysUsable(t *testing.T) {
	p := New(3)
	defer p.Close()
	for bad := range 8 {
		func() {
			defer func() {
				if v := recover(); v != "piece" {
					t.Errorf("recovered %v, want %q", v, "piece")
				}
			}()
			p.Run(8, func(i int) {
				if i == bad {
					panic("piece")
				}
			})
			t.Error("Run returned, want a panic")
		}()
		var n atomic.Int32
		p.Run(5, func(int) { n.Add(1) })
		if n.Load() != 5 {
			t.Errorf("after a panic: %d pieces ran, want 5", n.Load())
		}
	}
}

func TestRunInsideRunIsRefused(t *testing.T) {
	p := New(2)
	defer p.Close()
	defer func() {
		if recover() == nil {
			t.Error("Run inside Run returned, want a panic")
		}
	}()
	p.Run(2, func(int) { p.Run(2, func(int) {}) })
}

func TestRunAllocatesNothing(t *testing.T) {
	p := New(2)
	defer p.Close()
	var n atomic.Int64
	f := func(int) { n.Add(1) }
	if got := alloctest.PerRun(1000, func() { p.Run(16, f) }); got != 0 {
		t.Errorf("Run allocates %v times, want 0", got)
	}
}

func BenchmarkRunEmpty(b *testing.B) {
	p := New(2)
	defer p.Close()
	f := func(int) {}
	b.ReportAllocs()
	for b.Loop() {
		p.Run(2, f)
	}
}

// A recorded Run calls the pieces in order on the caller and tells of each; afterwards the threads
// are back.
func TestRecordTellsOfEachPiece(t *testing.T) {
	p := New(4)
	defer p.Close()
	var noted [][]time.Duration
	p.Record(nil, func(parts []time.Duration) { noted = append(noted, parts) })
	var order []int
	piece := func(i int) {
		// With another thread -race would see it.
		order = append(order, i)
		if i == 1 {
			for begun := time.Now(); time.Since(begun) < time.Millisecond; {
			}
		}
	}
	p.Run(3, piece)
	p.Run(1, piece)
	p.Record(nil, nil)
	if len(noted) != 2 || len(noted[0]) != 3 || len(noted[1]) != 1 {
		t.Fatalf("got times %v, want those of runs of 3 and 1 pieces", noted)
	}
	if noted[0][1] < time.Millisecond {
		t.Errorf("the piece that took 1 ms was noted with %v", noted[0][1])
	}
	if want := []int{0, 1, 2, 0}; !slices.Equal(order, want) {
		t.Errorf("got pieces in order %v, want %v", order, want)
	}
	var n atomic.Int32
	p.Run(5, func(int) { n.Add(1) })
	if n.Load() != 5 || len(noted) != 2 {
		t.Errorf("after recording: %d of 5 pieces ran and %d runs were noted, want 2", n.Load(), len(noted))
	}
}

// Time in which another program has the core is no time of a piece.
func TestRecordLeavesOutWhatOthersTook(t *testing.T) {
	p := New(2)
	defer p.Close()
	spin := func(d time.Duration) {
		for begun := time.Now(); time.Since(begun) < d; {
		}
	}

	// used is the thread's time: the first half of each long piece is another program's.
	var used time.Duration
	var got []time.Duration
	p.Record(func() time.Duration { return used }, func(parts []time.Duration) { got = slices.Clone(parts) })
	p.Run(3, func(i int) {
		if i != 1 {
			spin(2 * time.Millisecond)
			used += time.Millisecond
		}
	})
	if len(got) != 3 || got[0] != time.Millisecond || got[2] > time.Millisecond || got[2] < time.Millisecond/2 || got[1] > got[0] {
		t.Errorf("got pieces of %v, want 1 ms, nearly nothing and 1 ms", got)
	}
}

func TestWakeEstimateFollowsWhatWakingTakes(t *testing.T) {
	us := time.Microsecond
	for _, test := range []struct{ first, each, want time.Duration }{
		{firstWake, 60 * us, 60 * us},
		{firstWake, 1 * us, leastWake},
		{firstWake, time.Second, mostWake},
		{mostWake, 30 * us, 30 * us},
	} {
		wake := test.first
		for range 100 {
			wake = wakeEstimate(wake, test.each)
		}
		if d := wake - test.want; d < -us || d > us {
			t.Errorf("from %v, wake-ups of %v: estimate %v, want %v", test.first, test.each, wake, test.want)
		}
	}
	if wake := wakeEstimate(50*us, 10*time.Millisecond); wake > 70*us {
		t.Errorf("one wake-up of 10 ms takes the estimate from 50 µs to %v", wake)
	}
}

// Pieces that run at the same time have different threads, so that a piece may use memory of its
// thread's.
func TestRunThreadsNamesTheThread(t *testing.T) {
	for _, threads := range []int{1, 2, 4} {
		p := New(threads)
		busy := make([]atomic.Bool, threads)
		var calls atomic.Int64
		p.RunThreads(200, func(thread, i int) {
			if thread < 0 || thread >= threads {
				t.Errorf("%d threads: piece %d on thread %d", threads, i, thread)
				return
			}
			if busy[thread].Swap(true) {
				t.Errorf("%d threads: two pieces at once on thread %d", threads, thread)
			}
			calls.Add(1)
			runtime.Gosched()
			busy[thread].Store(false)
		})
		p.Close()
		if calls.Load() != 200 {
			t.Errorf("%d threads: %d calls, want 200", threads, calls.Load())
		}
	}
}
