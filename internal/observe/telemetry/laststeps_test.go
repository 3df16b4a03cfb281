package telemetry

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"testing"
	"time"
)

// madeStep is step n of a process: all its parts say which one it is.
func madeStep(n uint64) Step {
	d := time.Duration(n) * time.Millisecond
	return Step{Number: n, End: int64(n) * 1_000_000, Total: 10 * d, Compute: 5 * d, Wait: 3 * d, Data: d, Save: d / 2}
}

func TestRecordHasTheLastSteps(t *testing.T) {
	var r Recorder
	if steps := r.Record().Steps; len(steps) != 0 {
		t.Errorf("before the first one: %v", steps)
	}
	for n := uint64(1); n <= 100; n++ {
		r.AddStep(madeStep(n))
		record := r.Record()
		first := n - min(n, MaxSteps) + 1
		want := []Step{}
		for k := first; k <= n; k++ {
			want = append(want, madeStep(k))
		}
		if !slices.Equal(record.Steps, want) {
			t.Fatalf("after %d steps: got %v, want %v", n, record.Steps, want)
		}
		if again, err := Decode(record.Append(nil)); err != nil || !slices.Equal(again.Steps, want) {
			t.Fatalf("after %d steps, decoded: got %v (%v), want %v", n, again.Steps, err, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { r.AddStep(Step{}) }); n != 0 {
		t.Errorf("a step allocates %v times", n)
	}
	(*Recorder)(nil).AddStep(Step{})
}

// What is longer than 71 minutes is told as so long, and no record is longer than MaxRecord.
func TestLastStepsKeepToTheirSize(t *testing.T) {
	day := 24 * time.Hour
	r := Record{Steps: []Step{{Number: 1, End: 5, Total: day, Compute: -1}, {Number: 2, End: 5 + day.Microseconds()}}}
	got, err := Decode(r.Append(nil))
	most := time.Duration(math.MaxUint32) * time.Microsecond
	if err != nil || got.Steps[0].Total != most || got.Steps[0].Compute != 0 || got.Steps[1].End-got.Steps[0].End != most.Microseconds() {
		t.Errorf("got %+v (%v), want times of at most %v", got.Steps, err, most)
	}
	full := Record{}
	for n := range uint64(MaxSteps + 5) {
		full.Steps = append(full.Steps, madeStep(n+1))
	}
	for range MaxSamples + 5 {
		full.Samples = append(full.Samples, Sample{})
	}
	if n := len(full.Append(nil)); n > MaxRecord {
		t.Errorf("a full record has %d bytes, want at most %d", n, MaxRecord)
	}
	for n := range uint64(MaxBlames + 5) {
		full.Blames = append(full.Blames, Blame{Node: n})
	}
	if n := len(full.Append(nil)); n > MaxRecord {
		t.Errorf("a full record with blames has %d bytes, want at most %d", n, MaxRecord)
	}
}

func TestDecodeRefusesSteps(t *testing.T) {
	good := (&Record{Steps: []Step{madeStep(1), madeStep(2)}}).Append(nil)
	change := func(at int, v uint64) []byte {
		b := slices.Clone(good)
		binary.LittleEndian.PutUint64(b[at:], v)
		return b
	}
	count := func(n byte) []byte {
		b := slices.Clone(good)
		b[3] = n
		return b
	}
	both := append(count(2), make([]byte, 24)...)
	both[2] = 1
	many := append([]byte{format, 0, 0, MaxSteps + 1}, make([]byte, stepsHead+stepBytes*(MaxSteps+1))...)
	for name, b := range map[string][]byte{"number below the count": change(4, 1), "time below 0": change(12, 1<<63), "one more": count(3), "one less": count(1), "none": count(0), "short": good[:len(good)-1], "with blames": both, "too many": many} {
		if r, err := Decode(b); err == nil {
			t.Errorf("%s: got %+v, want an error", name, r)
		}
	}
}

// A record never has half of a step, nor steps out of their order, while steps are added.
func TestLastStepsWhileTheyAreAdded(t *testing.T) {
	var r Recorder
	done := make(chan struct{})
	var adding sync.WaitGroup
	adding.Go(func() {
		defer close(done)
		for n := uint64(1); n <= 20_000; n++ {
			r.AddStep(madeStep(n))
		}
	})
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		steps := r.Record().Steps
		for i, s := range steps {
			if s != madeStep(s.Number) || i > 0 && s.Number != steps[i-1].Number+1 {
				t.Fatalf("step %d of %v", i, steps)
			}
		}
	}
	adding.Wait()
	if n := len(r.Record().Steps); n != MaxSteps {
		t.Errorf("at the end there are %d steps, want %d", n, MaxSteps)
	}
}

// The scheduler knows the steps of a process's newest record.
func TestLastStepsAreThoseOfTheNewestRecord(t *testing.T) {
	h := NewHistory(begin, time.Second)
	h.Add(after(1), 1, &Record{Steps: []Step{madeStep(1)}})
	h.Add(after(2), 1, &Record{Steps: []Step{madeStep(1), madeStep(2)}})
	if got := h.LastSteps(1); !slices.Equal(got, []Step{madeStep(1), madeStep(2)}) {
		t.Errorf("got %v, want two steps", got)
	}
	if got := h.LastSteps(2); got != nil {
		t.Errorf("of a process that is not known: got %v", got)
	}
}

// Numbers from 1 and times from 0 are taken.
func TestTheFirstStepsAreDecoded(t *testing.T) {
	for _, steps := range [][]Step{{{Number: 1}}, {{Number: 1}, {Number: 2, End: 5, Total: time.Microsecond}}, {{Number: 7, End: 3}, {Number: 8, End: 3}}} {
		got, err := Decode((&Record{Steps: steps}).Append(nil))
		if err != nil || !slices.Equal(got.Steps, steps) {
			t.Errorf("got %v, %v, want %v", got.Steps, err, steps)
		}
	}
	good := (&Record{Steps: []Step{{Number: 7, End: 3}, {Number: 8, End: 5}}}).Append(nil)
	for at, what := range map[int]string{4 + stepsHead: "an end before 0", 4 + stepsHead + stepBytes: "a newest step that is not the newest"} {
		b := slices.Clone(good)
		if b[at] += 4; at > 4+stepsHead {
			b[at] = 1
		}
		if r, err := Decode(b); err == nil {
			t.Errorf("%s: got %v, want an error", what, r.Steps)
		}
	}
}

// A step that is being written, or was replaced by a newer one meanwhile, is left out with those
// before it.
func TestAStepThatIsBeingWrittenIsLeftOut(t *testing.T) {
	var r Recorder
	for range 10 {
		r.AddStep(Step{})
	}
	for _, number := range []uint64{0, 6 + ringSteps} {
		r.steps.ring[6].number.Store(number)
		steps := r.Record().Steps
		if len(steps) != 4 || steps[0].Number != 7 || steps[3].Number != 10 {
			t.Errorf("slot of step 6 has number %d: got %v, want steps 7 to 10", number, steps)
		}
	}
}
