package main

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// Seconds of which a part is outside the window do not count, nor does its first one, whose steps may have been made before.
func TestStepsOfAWindow(t *testing.T) {
	begin := time.Unix(1000, 0)
	nan := math.NaN()
	p := points{from: begin, every: time.Second, workers: []workerPoints{
		{steps: []float64{0, 10, 20, 30, 40, 50}, seconds: []float64{0, 1, 2, 4, 7, 11}},
		{steps: []float64{nan, nan, 5, 15, 15, 25}, seconds: []float64{nan, nan, 1, 2, 2, 3}}, // no record came in one second
	}}
	for _, tc := range []struct {
		from, to time.Duration
		want     []float64
	}{
		{0, 6 * time.Second, []float64{.1, .2, .1, .3, .4, .1}},
		{-time.Second, 6 * time.Second, []float64{.1, .1, .2, .1, .3, .4, .1}},
		{time.Second, 4 * time.Second, []float64{.2, .1, .3}},
		{1001 * time.Millisecond, 3999 * time.Millisecond, nil},
		{1001 * time.Millisecond, 4 * time.Second, []float64{.3}},
		{20 * time.Second, time.Minute, nil},
	} {
		got := p.within(begin.Add(tc.from), begin.Add(tc.to))
		if !slices.EqualFunc(got, tc.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
			t.Errorf("%v to %v: got %v, want %v", tc.from, tc.to, got, tc.want)
		}
	}
}

// A cost of 2 % is found though the machine gets slower by half meanwhile.
func TestACostIsFoundOnAMachineThatGetsSlower(t *testing.T) {
	const cycles = 12
	var windows []window
	for c := range cycles {
		speed := 1 + float64(c)/(2*cycles)
		for _, k := range kinds {
			cost := map[string]float64{kinds[0].name: 1.02}[k.name]
			windows = append(windows, window{kind: nobody, cycle: c, steps: []float64{.02 * speed, .0201 * speed, .0199 * speed}},
				window{kind: k.name, cycle: c, steps: []float64{.02 * speed * max(cost, 1), .0202 * speed * max(cost, 1), .0199 * speed * max(cost, 1)}})
		}
	}
	r, err := ratioOf(windows, kinds[0].name, cycles)
	if err != nil || r.low > r.value || r.high < r.value || math.Abs(r.value-1.02) > .001 || r.low < 1 {
		t.Errorf("got %+v, %v, want 1.02 within an interval above 1", r, err)
	}
	if r, err = ratioOf(windows, kinds[1].name, cycles); err != nil || math.Abs(r.value-1) > .001 {
		t.Errorf("got %+v, %v, want 1", r, err)
	}
	var b strings.Builder
	if err := writeTable(&b, windows); err != nil {
		t.Fatal(err)
	}
	for _, k := range append(names(), nobody) {
		if !strings.Contains(b.String(), k) {
			t.Errorf("the table has no row %q:\n%s", k, b.String())
		}
	}
	windows = slices.DeleteFunc(windows, func(w window) bool { return w.kind == kinds[2].name })
	if err := writeTable(&b, windows); err == nil || !strings.Contains(err.Error(), kinds[2].name) {
		t.Errorf("without its windows: got %v, want an error that names %q", err, kinds[2].name)
	}
}

func TestFlags(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"", ""},
		{"-cycles 2 -window 3s", ""},
		{"-cycles 0", "-cycles 0"},
		{"-window 2s", "-window 2s"},
		{"-window 30s", "ten minutes"},
		{"more", `got "more"`},
	} {
		err := new(config).parse(strings.Fields(tc.args))
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: got %v, want %q", tc.args, err, tc.want)
		}
	}
}

func TestTheAddressOfTheMetricsIsReadFromTheLog(t *testing.T) {
	j := &job{}
	if j.read("worker 0 | hello"); j.metrics.Load() != nil {
		t.Fatalf("got %q of a line without one", *j.metrics.Load())
	}
	j.read("10:00 INFO metrics for Prometheus: http://127.0.0.1:4711/metrics (for http_sd: http://127.0.0.1:4711/sd)")
	if got, want := j.metrics.Load(), "http://127.0.0.1:4711/metrics"; got == nil || *got != want {
		t.Errorf("got %v, want %q", got, want)
	}
}
