package main

import (
	"io"
	"strings"
	"testing"
)

func TestLiveHeapsAreReadFromTheCollectorsLines(t *testing.T) {
	h := &heaps{}
	for line, taken := range map[string]bool{
		"gc 1 @0.007s 3%: 0.1+1+0.01 ms clock, 0.2+0.4/0.9/0+0.02 ms cpu, 3->3->1 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 2 P":                        true,
		"server 0  | gc 12 @1.2s 3%: 0.1+1+0.01 ms clock, 0.2+0.4/0.9/0+0.02 ms cpu, 63->70->35 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 2 P (forced)": true,
		"scheduler | gc 2 @1.2s 3%: 0.1+1+0.01 ms clock, 0.2+0.4/0.9/0+0.02 ms cpu, 3->3->2 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 2 P":              true,
		"worker 0 | joined": false,
	} {
		if got := h.read(line); got != taken {
			t.Errorf("%q: taken: %v, want %v", line, got, taken)
		}
	}
	for name, want := range map[string]int{"server 0": 35, "scheduler": 2, "worker 0": 0} {
		if got := h.of(name); got != want {
			t.Errorf("%s: got %d MB, want %d", name, got, want)
		}
	}
}

// What grows from quarter to quarter is found, noise and a high start are not.
func TestGrowthIsFound(t *testing.T) {
	for _, test := range []struct {
		resident, live, files func(i int) float64
		want                  string
	}{
		{want: ""},
		{resident: func(i int) float64 { return 60 + float64(i%7) }, want: ""},
		{resident: func(i int) float64 { return 60 + 40/float64(1+i) }, want: ""},
		{resident: func(i int) float64 { return 60 + float64(i)/5 }, want: "resident memory of server 0 grows"},
		{live: func(i int) float64 { return 30 + float64(i/10) }, want: "live heap of server 0 grows"},
		{files: func(i int) float64 { return 30 + float64(i)/10 }, want: "open files of server 0 grow"},
	} {
		x := &trace{name: "server 0"}
		for i := range 500 {
			value := func(f func(int) float64) float64 {
				if f == nil {
					return 20
				}
				return f(i)
			}
			x.resident, x.live, x.files = append(x.resident, value(test.resident)), append(x.live, value(test.live)), append(x.files, value(test.files))
			x.shared = append(x.shared, 1)
		}
		m := &memory{list: []*trace{x}}
		got := ""
		if err := m.judge(io.Discard); err != nil {
			got = err.Error()
		}
		if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
