package adapt

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
)

func TestProfileHasMeansByConfiguration(t *testing.T) {
	var p Profile
	two := Timing{Nodes: 1, Replicas: 2, LocalBatch: 8}
	p.Accumulated(two, 1)
	p.Accumulated(two, 2)
	p.Closed(two, 5, 2) // 3 s of computing
	p.Closed(two, 7, 1)
	one := Timing{Nodes: 1, Replicas: 1, LocalBatch: 16, Servers: 2}
	p.Closed(one, 4, 4)                                            // all of it waiting
	p.Accumulated(Timing{Nodes: 1, Replicas: 4, LocalBatch: 8}, 9) // never closed
	want := []Timing{
		{Nodes: 1, Replicas: 1, LocalBatch: 16, Servers: 2, Step: 4},
		{Nodes: 1, Replicas: 2, LocalBatch: 8, Accumulation: 3, Step: 6},
	}
	if got := p.Timings(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := p.MostReplicas(); got != 2 {
		t.Errorf("most replicas: got %d, want 2", got)
	}

	before := p.Entries()
	for _, seconds := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		p.Accumulated(two, seconds)
		p.Closed(two, seconds, 0)
		p.Closed(two, 1, seconds-2)
	}
	p.Accumulated(Timing{}, 1)
	if got := p.Entries(); !reflect.DeepEqual(got, before) {
		t.Errorf("after times that cannot be: got %+v, want %+v", got, before)
	}
}

// Old steps count less and less: a machine that has become twice as fast is known to be, and the
// means stay as they are when sums are halved.
func TestAProfileForgetsOldSteps(t *testing.T) {
	var p Profile
	x := Timing{Nodes: 1, Replicas: 2, LocalBatch: 8}
	step := func(seconds float64) {
		p.Accumulated(x, seconds/4)
		p.Closed(x, seconds, seconds)
	}
	for range 5 * mostSteps {
		step(2)
		if e, ok := p.Entry(x); !ok || e.Steps > mostSteps || e.Closing != 2*float64(e.Steps) || e.Computing != 0.5*float64(e.Computed) {
			t.Fatalf("got %+v, want at most %d steps of 2 s and as many runs of 0.5 s", e, mostSteps)
		}
	}
	for range 2 * mostSteps {
		step(1)
	}
	if got := p.Timings()[0]; got.Step > 1.1 || got.Accumulation > 1.1/4 {
		t.Errorf("got %+v, want about 1 s and 0.25 s", got)
	}
	if e, ok := p.Entry(Timing{Nodes: 1, Replicas: 2, LocalBatch: 9}); ok || e.Steps != 0 {
		t.Errorf("got %+v of a batch that was not measured", e)
	}
}

func TestRestoredProfileGoesOn(t *testing.T) {
	var a, b Profile
	x := Timing{Nodes: 2, Replicas: 3, LocalBatch: 7, Servers: 1}
	for i := range 10 {
		a.Closed(x, 1+float64(i)/3, float64(i)/7)
	}
	text, err := json.Marshal(a.Entries())
	if err != nil {
		t.Fatal(err)
	}
	var entries []ProfileEntry
	if err := json.Unmarshal(text, &entries); err != nil {
		t.Fatal(err)
	}
	if err := b.Restore(entries); err != nil {
		t.Fatal(err)
	}
	a.Closed(x, 2, 0.1)
	b.Closed(x, 2, 0.1)
	if !reflect.DeepEqual(a.Timings(), b.Timings()) {
		t.Errorf("got %+v, want %+v", b.Timings(), a.Timings())
	}
	good := ProfileEntry{Nodes: 1, Replicas: 1, LocalBatch: 1, Steps: 1, Closing: 1}
	for _, change := range []func(e *ProfileEntry){
		func(e *ProfileEntry) { e.Nodes = 0 },
		func(e *ProfileEntry) { e.Steps = -1 },
		func(e *ProfileEntry) { e.Steps = 0 },
		func(e *ProfileEntry) { e.Closing = 0 },
		func(e *ProfileEntry) { e.Closing = math.NaN() },
		func(e *ProfileEntry) { e.Closing = math.Inf(1) },
		func(e *ProfileEntry) { e.Computed = 1 },
		func(e *ProfileEntry) { e.Computing = 1 },
		func(e *ProfileEntry) { e.LocalBatch = 2 }, // as another one
	} {
		bad := good
		change(&bad)
		before := b.Entries()
		if err := b.Restore([]ProfileEntry{good, bad, {Nodes: 1, Replicas: 1, LocalBatch: 2, Steps: 1, Closing: 1}}); err == nil {
			t.Errorf("%+v was restored", bad)
		}
		if !reflect.DeepEqual(b.Entries(), before) {
			t.Errorf("%+v was refused, but the profile changed", bad)
		}
	}
}
