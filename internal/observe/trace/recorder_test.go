package trace

import (
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

func newTestRecorder() *Recorder { return NewRecorder(telemetry.NewClock()) }

func spansOf(c *Capture) []Span { return c.Take().Spans }

func TestSpansAreKeptWhileACaptureIsOpen(t *testing.T) {
	r := newTestRecorder()
	if r.On() {
		t.Fatal("on without a Capture")
	}
	r.Add(Span{Kind: Save, Begin: 1, End: 2})
	c := r.Open(Config{})
	if !r.On() {
		t.Fatal("off with an open Capture")
	}
	want := Span{Kind: Push, Begin: 3, End: 4, Step: 5, Key: r.Name("w"), Shard: 6, Round: 7, Peer: 8, Bytes: 9}
	r.Add(want)
	c.Close()
	r.Add(Span{Kind: Save, Begin: 5, End: 6})
	if r.On() {
		t.Error("on after Close")
	}
	got := spansOf(c)
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if name := r.Names()[want.Key]; name != "w" {
		t.Errorf("key %d is %q, want w", want.Key, name)
	}
	if again := r.Name("w"); again != want.Key {
		t.Errorf("Name gave %d and then %d", want.Key, again)
	}
}

func TestNilRecorderIsOff(t *testing.T) {
	var r *Recorder
	r.Add(Span{Kind: Save})
	r.BeginStep(3)
	r.StepDone()
	if r.On() || r.Step() != 0 {
		t.Error("a nil Recorder is on, or has a step")
	}
}

// Two Captures, as of a profiler and of launch ctl trace, do not disturb each other.
func TestCapturesAreIndependent(t *testing.T) {
	r := newTestRecorder()
	a := r.Open(Config{})
	r.Add(Span{Kind: Wait, Begin: 1})
	b := r.Open(Config{})
	r.Add(Span{Kind: Wait, Begin: 2})
	a.Close()
	r.Add(Span{Kind: Wait, Begin: 3})
	b.Close()
	b.Close()
	for i, want := range [][2]int64{{1, 2}, {2, 3}} {
		got := spansOf([]*Capture{a, b}[i])
		if len(got) != 2 || got[0].Begin != want[0] || got[1].Begin != want[1] {
			t.Errorf("Capture %d: got %+v, want begins %v", i, got, want)
		}
	}
}

func TestCaptureEndsAfterItsSteps(t *testing.T) {
	r := newTestRecorder()
	r.BeginStep(40)

	// 40 began before the Capture, and so did 41.
	r.StepDone()
	c := r.Open(Config{Steps: 3})
	for i := range 10 {
		begin := r.Now()
		r.Add(Span{Kind: Forward, Begin: begin, End: r.Now(), Step: r.Step()})
		r.StepDone()
		select {
		case <-c.Done():
			if i < 3 {
				t.Fatalf("the Capture ended with step %d of the loop, want 3: the first one has no begin", i)
			}
		default:
			if i >= 3 {
				t.Fatalf("the Capture is open after step %d of the loop, want it closed after 3", i)
			}
		}
	}
	var steps []uint64
	last := int64(0)
	for _, s := range spansOf(c) {
		if s.Kind != Step {
			continue
		}
		steps = append(steps, s.Step)
		if last != 0 && s.Begin != last || s.End < s.Begin {
			t.Errorf("step %d is from %d to %d, want it to begin at the end of the one before, %d", s.Step, s.Begin, s.End, last)
		}
		last = s.End
	}
	if len(steps) != 3 || steps[0] != 42 || steps[1] != 43 || steps[2] != 44 {
		t.Errorf("got the steps %v, want 42 to 44", steps)
	}
}

// A loop that was off between two Captures does not tell of a step that lasted all that time.
func TestStepBeginsAnewAfterAPause(t *testing.T) {
	r := newTestRecorder()
	r.Open(Config{}).Close()
	c := r.Open(Config{})
	r.StepDone()
	c.Close()
	r.StepDone()
	c = r.Open(Config{})
	r.StepDone()
	c.Close()
	if got := spansOf(c); len(got) != 0 {
		t.Errorf("got %+v, want no step: its begin is not known", got)
	}
}

func TestSpansBeforeTheWindowAreLeftOut(t *testing.T) {
	r := newTestRecorder()
	from := r.Now() + int64(time.Hour)
	c := r.Open(Config{From: from, Steps: 1})
	r.BeginStep(1)
	r.StepDone()
	r.Add(Span{Kind: Data, Begin: from - 1, End: from + 5})
	r.Add(Span{Kind: Data, Begin: from, End: from + 5})
	c.Close()
	if got := spansOf(c); len(got) != 1 || got[0].Begin != from {
		t.Errorf("got %+v, want the one span that begins at %d", got, from)
	}
}

func TestFullCaptureCountsWhatItDrops(t *testing.T) {
	r := newTestRecorder()
	c := r.Open(Config{Spans: 4})
	for i := range 10 {
		r.Add(Span{Kind: Wait, Begin: int64(i)})
	}
	if c.Len() != 4 || c.Dropped() != 6 {
		t.Errorf("got %d spans and %d dropped, want 4 and 6", c.Len(), c.Dropped())
	}
	if got := spansOf(c); len(got) != 4 || got[3].Begin != 3 {
		t.Errorf("got %+v, want the first four", got)
	}
}

func TestNamesAreBounded(t *testing.T) {
	r := newTestRecorder()
	for i := range maxNames + 10 {
		r.Name(strconv.Itoa(i))
	}
	if n := len(r.Names()); n != maxNames {
		t.Errorf("got %d names, want at most %d", n, maxNames)
	}
	if id := r.Name("one more"); id != 0 {
		t.Errorf("got number %d for a name beyond the limit, want 0", id)
	}
}

// Captures are opened, read and closed while many goroutines record.
func TestRecordingIsConcurrent(t *testing.T) {
	r := newTestRecorder()
	stop := make(chan struct{})
	var recording sync.WaitGroup
	for g := range 8 {
		recording.Go(func() {
			for i := uint64(0); ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				r.Add(Span{Kind: Push, Begin: int64(i), End: int64(i), Peer: uint64(g), Round: i, Bytes: i ^ uint64(g)})
				if g == 0 {
					r.StepDone()
				}
				r.Names()
			}
		})
	}
	for range 10 {
		c, d := r.Open(Config{Spans: 256}), r.Open(Config{Spans: 64, Steps: 5})
		for c.Len() < 100 {
			runtime.Gosched()
		}
		<-d.Done()
		for _, s := range spansOf(c) {
			if s.Kind == Push && (s.Bytes != s.Round^s.Peer || s.Begin != int64(s.Round)) {
				t.Fatalf("torn span %+v", s)
			}
		}
	}
	close(stop)
	recording.Wait()
}

func TestRecordingAllocatesNothing(t *testing.T) {
	r := newTestRecorder()
	record := func() {
		if r.On() {
			begin := r.Now()
			r.Add(Span{Kind: Push, Begin: begin, End: r.Now(), Step: r.Step()})
		}
		r.StepDone()
	}
	if n := testing.AllocsPerRun(100, record); n != 0 {
		t.Errorf("off: %v allocations, want 0", n)
	}
	c := r.Open(Config{})
	defer c.Close()
	if n := testing.AllocsPerRun(100, record); n != 0 {
		t.Errorf("on: %v allocations, want 0", n)
	}
}

func TestKindsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for k := Kind(1); k < numKinds; k++ {
		if name := k.String(); !k.Valid() || name == "" || seen[name] {
			t.Errorf("kind %d has the name %q", uint8(k), name)
		} else {
			seen[name] = true
		}
	}
	if k := Kind(numKinds); k.Valid() || Kind(0).Valid() || k.String() != "kind 18" {
		t.Errorf("%v is a kind", k)
	}
}

// go test -bench Record -benchmem ./internal/observe/trace
func BenchmarkRecord(b *testing.B) {
	for _, on := range []bool{false, true} {
		b.Run(map[bool]string{false: "off", true: "on"}[on], func(b *testing.B) {
			r := newTestRecorder()
			if on {
				defer r.Open(Config{}).Close()
			}
			b.ReportAllocs()
			for b.Loop() {
				if r.On() {
					begin := r.Now()
					r.Add(Span{Kind: Push, Begin: begin, End: r.Now()})
				}
			}
		})
	}
}
