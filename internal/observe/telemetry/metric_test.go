package telemetry

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The vocabulary is whole: names are there once, and a Recorder has room for all of it.
func TestMetrics(t *testing.T) {
	names := map[string]Metric{}
	for _, m := range Metrics() {
		i, ok := m.Info()
		if !ok || i.Help == "" || i.Roles == 0 || (i.Label == "") != (i.Width == 1) {
			t.Errorf("metric %v: %+v: want a name, a help, roles, and a label if it has several values", m, i)
		}
		if other, twice := names[i.Name]; twice {
			t.Errorf("metrics %d and %d have the name %s", other, m, i.Name)
		}
		names[i.Name] = m
	}
	if first[numMetrics] != numSlots {
		t.Errorf("numSlots is %d, want %d", numSlots, first[numMetrics])
	}
	for _, role := range []int{OfWorker, OfServer} {
		n := 0
		for _, m := range Metrics() {
			if i, _ := m.Info(); i.Roles&role != 0 && m != TestScore {
				n += i.Width
			}
		}
		if n > MaxSamples {
			t.Errorf("role %d has %d values, want at most %d", role, n, MaxSamples)
		}
	}
	if size := head + 10*MaxSamples + 24*MaxBlames; size > MaxRecord {
		t.Errorf("the largest record has %d bytes, want at most %d", size, MaxRecord)
	}
	if _, ok := Metric(200).Info(); ok {
		t.Error("metric 200 is known")
	}
}

func TestRecorder(t *testing.T) {
	var r Recorder
	r.Add(Steps, 1)
	r.Add(Steps, 2)
	r.Set(Loss, math.NaN())
	r.SetAt(GPULoad, 3, .5)
	r.SetAt(GPULoad, MaxGPUs, 1)
	r.AddAt(Steps, -1, 1)
	r.Observe(StepBuckets, .0025)
	r.Observe(StepBuckets, 11)
	r.Collect(func(r *Recorder) { r.Set(ResidentBytes, 7) })
	r.CollectBlames(func() []Blame { return []Blame{{Node: 3, Rounds: 2, Seconds: 1}} })
	got := r.Record()
	if !slices.Equal(got.Blames, []Blame{{Node: 3, Rounds: 2, Seconds: 1}}) {
		t.Errorf("blames: got %v", got.Blames)
	}
	want := []Sample{{Steps, 0, 3}, {StepBuckets, 1, 1}, {Loss, 0, math.NaN()}, {ResidentBytes, 0, 7}, {GPULoad, 3, .5}}
	same := func(a, b Sample) bool {
		return a.Metric == b.Metric && a.Index == b.Index && math.Float64bits(a.Value) == math.Float64bits(b.Value)
	}
	if !slices.EqualFunc(got.Samples, want, same) {
		t.Errorf("got %v, want %v", got.Samples, want)
	}
	again, err := Decode(got.Append(nil))
	if err != nil || !slices.EqualFunc(again.Samples, want, same) {
		t.Errorf("decoded %v, %v, want %v", again.Samples, err, want)
	}
	var none *Recorder
	none.Add(Steps, 1)
	none.Collect(func(*Recorder) {})
	none.CollectBlames(func() []Blame { return nil })
	if r := none.Record(); len(r.Samples) != 0 {
		t.Errorf("a nil recorder has %v", r.Samples)
	}
	if n := testing.AllocsPerRun(100, func() { r.Add(Steps, 1); r.Set(Loss, 1); r.Observe(StepBuckets, .1) }); n != 0 {
		t.Errorf("recording allocates %v times", n)
	}
}

func TestDecodeRefuses(t *testing.T) {
	bad := [][]byte{nil, {1, 0}, {2, 0, 0}, {1, 1, 0}, {1, 0, 1}, bytes.Repeat([]byte{1}, MaxRecord+1)}
	for _, r := range []Record{
		{Samples: []Sample{{Loss, 0, 1}, {Loss, 0, 1}}},
		{Samples: []Sample{{Loss, 0, 1}, {Steps, 0, 1}}},
		{Samples: []Sample{{Steps, 0, -1}}},
		{Samples: []Sample{{Steps, 0, math.Inf(1)}}},
		{Blames: []Blame{{Node: 2}, {Node: 2}}},
		{Blames: []Blame{{Seconds: math.NaN()}}},
	} {
		bad = append(bad, r.Append(nil))
	}
	for _, b := range bad {
		if r, err := Decode(b); err == nil {
			t.Errorf("Decode(%v): got %v, want an error", b, r)
		}
	}
	known, err := Decode((&Record{Samples: []Sample{{Loss, 0, 1}, {Loss, 1, 1}, {250, 0, 1}}}).Append(nil))
	if err != nil || len(known.Samples) != 1 {
		t.Errorf("with unknown metrics: got %v, %v, want the known one alone", known, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add((&Record{Samples: []Sample{{Steps, 0, 1}, {Loss, 0, .5}}, Blames: []Blame{{1, 2, 3}}}).Append(nil))
	f.Add((&Record{Samples: []Sample{{Steps, 0, 1}}, Steps: []Step{{Number: 1}, {Number: 2, End: 70, Total: 1000}}}).Append(nil))
	f.Add((&Record{Samples: []Sample{{Steps, 0, 1}}, Steps: []Step{{Number: 1}}, Scores: []Score{{"top5", .5}, {"f1", 1}}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if err != nil {
			return
		}
		again := r.Append(nil)
		if len(again) > len(b) {
			t.Errorf("%d bytes became %d", len(b), len(again))
		}
		if _, err := Decode(again); err != nil {
			t.Errorf("what was decoded and encoded again is refused: %v", err)
		}
	})
}

// go test ./internal/observe/telemetry -run '^$' -bench .
func BenchmarkRecord(b *testing.B) {
	var r Recorder
	CollectProcess(&r)
	for _, m := range Metrics() {
		r.Set(m, 1.5)
	}
	b.ReportAllocs()
	for b.Loop() {
		record := r.Record()
		record.Append(nil)
	}
}

func BenchmarkAdd(b *testing.B) {
	var r Recorder
	for b.Loop() {
		r.Add(StepSeconds, 1.5)
	}
}

// The vocabulary is read by schedulers, launchers and dashboards of other builds: numbers, names,
// kinds and widths stay. What is new is appended.
func TestTheVocabularyIsTheGoldenOne(t *testing.T) {
	golden, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, m := range Metrics() {
		i, _ := m.Info()
		fmt.Fprintf(&text, "%d %v %s of", m, m, []string{"gauge", "counter"}[i.Kind])
		for k, role := range []string{"worker", "server"} {
			if i.Roles&(1<<k) != 0 {
				text.WriteString(" " + role)
			}
		}
		if i.Label != "" {
			fmt.Fprintf(&text, ", %d by %s", i.Width, i.Label)
		}
		if i.Kept {
			text.WriteString(", kept")
		}
		text.WriteString("\n")
		if got, ok := ByName(m.String()); !ok || got != m {
			t.Errorf("the metric with the name %v is %d, %t, want %d", m, got, ok, m)
		}
	}
	if diff := cmp.Diff(string(golden), text.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if m, ok := ByName(""); ok {
		t.Errorf("metric %d has no name", m)
	}
	if want := [...]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}; StepBounds != want {
		t.Errorf("the bounds of buckets are %v, want %v", StepBounds, want)
	}
	if want := [...]string{"tcp", "tls", "memory", "unix"}; Transports != want {
		t.Errorf("the transports are %v, want %v", Transports, want)
	}
}

// A duration is counted in the bucket of the least bound that holds it, and in none above all.
func TestADurationHasOneBucket(t *testing.T) {
	for i, bound := range StepBounds {
		for seconds, want := range map[float64]int{bound: i, bound * 1.001: i + 1} {
			var r Recorder
			r.Observe(RoundBuckets, seconds)
			samples := r.Record().Samples
			if want < len(StepBounds) && !slices.Equal(samples, []Sample{{RoundBuckets, uint8(want), 1}}) || want == len(StepBounds) && len(samples) != 0 {
				t.Errorf("%g s: got %v, want one in bucket %d", seconds, samples, want)
			}
		}
	}
}
