//go:build browser

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/browser"
	"github.com/paragon-train/paragon/internal/testing/browser/traceviewer"
)

// What `launch ctl trace` writes of a running job that trains is what a viewer shows: every process, lane, span and arrow.
func TestAViewerReadsTheTraceOfARunningJob(t *testing.T) {
	chromium := browser.Start(t)
	const steps = 5
	goOn := filepath.Join(t.TempDir(), "fast")
	j := startFit(t, "-s", "2", "--env", fitFast+"="+goOn)
	path := filepath.Join(t.TempDir(), "t.json.gz")
	j.wantCtl(t, 0, `t\.json\.gz: `, "trace", "--steps", fmt.Sprint(steps), "-o", path)
	if err := os.WriteFile(goOn, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	j.end(t, 0, 3)
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file := readTrace(t, path)

	v := traceviewer.Open(t, chromium, packed, browser.View{Width: 1600, Height: 1200})
	for _, w := range v.Model.Warnings {
		t.Errorf("the viewer warns: %s", w)
	}
	want := 0
	for _, e := range file.TraceEvents {
		if e.Ph == "X" {
			want++
		}
	}
	processes, spans, begin, end := []string{}, 0, 0.0, 0.0
	for _, p := range v.Model.Processes {
		processes = append(processes, p.Name)
		lanes := map[string]int{} // by name without number: spans
		for _, l := range p.Threads {
			lanes[unnumbered(l.Name)] += len(l.Slices)
			spans += len(l.Slices)
			for i, s := range l.Slices {
				if end = max(end, s.Begin+s.Duration); unnumbered(l.Name) == "step" && i == 1 {
					begin = s.Begin
				}
			}
		}
		need := []string{"step", "data", "forward", "backward", "push", "pull"}
		if strings.HasPrefix(p.Name, "server") {
			need = []string{"round", "receive", "answer"}
		}
		for _, lane := range need {
			if lanes[lane] == 0 || lane == "step" && lanes[lane] < steps {
				t.Errorf("%s has %d spans of %s; its lanes: %v", p.Name, lanes[lane], lane, lanes)
			}
		}
	}
	if got := strings.Join(processes, ", "); got != "worker 0 on localhost, worker 1 on localhost, worker 2 on localhost, server 0 on localhost, server 1 on localhost" {
		t.Errorf("processes: %s", got)
	}
	if spans != want {
		t.Errorf("the viewer has %d spans, the file %d", spans, want)
	}
	checkViewedArrows(t, v.Model.Flows, &file)
	v.Show(begin, begin+(end-begin)/4, true)
	v.Screenshot("ctl-trace")
	v.Clean()
}

// checkViewedArrows wants each arrow of the file, from the push of a key to its round or from there to its pull, and none back in time.
func checkViewedArrows(t *testing.T, flows []traceviewer.Flow, file *traceFile) {
	t.Helper()
	want := map[string]int{}
	for _, e := range file.TraceEvents {
		if e.Cat == "flow" {
			want[e.Ph]++
		}
	}
	got := map[string]int{}
	for _, f := range flows {
		from, to := unnumbered(f.From.Thread), unnumbered(f.To.Thread)
		switch from + " " + to {
		case "push round":
			got["s"]++
		case "round pull":
			got["t"]++
		default:
			t.Errorf("an arrow goes from %+v to %+v", f.From, f.To)
		}
		if strings.TrimPrefix(f.From.Slice, from) != strings.TrimPrefix(f.To.Slice, to) {
			t.Errorf("an arrow goes from %q to %q, which is another key", f.From.Slice, f.To.Slice)
		}
		if f.To.At < f.From.At {
			t.Errorf("an arrow goes from %q at %g ms back to %q at %g ms", f.From.Slice, f.From.At, f.To.Slice, f.To.At)
		}
	}
	// The pull of the last rounds may be behind what is shown.
	if got["s"] != want["s"] || got["t"] != want["t"] || got["t"] == 0 {
		t.Errorf("the viewer has %d arrows to rounds and %d to pulls; the file %d and %d, and there must be some", got["s"], got["t"], want["s"], want["t"])
	}
}

// unnumbered is the name of a lane without its number.
func unnumbered(name string) string { return strings.TrimRight(name, " 0123456789") }
