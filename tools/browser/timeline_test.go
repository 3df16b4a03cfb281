package browser_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/testing/testbuild"
	"github.com/paragon-train/paragon/tools/browser"
	"github.com/paragon-train/paragon/tools/browser/traceviewer"
)

// A traceFile counts what a viewer should show of a trace.
type traceFile struct {
	TraceEvents []struct {
		Ph, Cat string
	}
}

func (f *traceFile) count(field func(ph, cat string) bool) (n int) {
	for _, e := range f.TraceEvents {
		if field(e.Ph, e.Cat) {
			n++
		}
	}
	return n
}

// viewTrace opens a trace, which may be packed, and wants all of its spans and arrows in the
// viewer, and no warning.
func viewTrace(t *testing.T, chromium *browser.Browser, data []byte, view browser.View) *traceviewer.Viewer {
	t.Helper()
	text, packed := data, data
	if z, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		if text, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	} else {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(data)
		z.Close()
		packed = b.Bytes()
	}
	var file traceFile
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	v := traceviewer.Open(t, chromium, packed, view)
	for _, w := range v.Model.Warnings {
		t.Errorf("the viewer warns: %s", w)
	}
	spans := 0
	for _, p := range v.Model.Processes {
		for _, x := range p.Threads {
			spans += len(x.Slices)
			if x.Name == "" {
				t.Errorf("a lane of %s has no name", p.Name)
			}
		}
	}
	if want := file.count(func(ph, _ string) bool { return ph == "X" }); spans != want || want == 0 {
		t.Errorf("the viewer has %d spans of %d", spans, want)
	}
	checkViewedArrows(t, v.Model.Flows, &file)
	return v
}

// checkViewedArrows wants each arrow of the file, from the push of a key to its round or from there
// to its pull, and none back in time.
func checkViewedArrows(t *testing.T, flows []traceviewer.Flow, file *traceFile) {
	t.Helper()
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
	for _, phase := range []string{"s", "t"} {
		if want := file.count(func(ph, cat string) bool { return cat == "flow" && ph == phase }); got[phase] != want || want == 0 {
			t.Errorf("the viewer has %d arrows of phase %s; the file %d, and there must be some", got[phase], phase, want)
		}
	}
}

// unnumbered is the name of a lane without its number.
func unnumbered(name string) string { return strings.TrimRight(name, " 0123456789") }

func processes(v *traceviewer.Viewer) (names []string) {
	for _, p := range v.Model.Processes {
		names = append(names, p.Name)
	}
	return names
}

// A real viewer reads every span and every arrow of the timeline that package trace keeps as its
// golden file, and has nothing to complain of.
func TestTheViewerReadsATimeline(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "internal", "observe", "trace", "testdata", "timeline.json"))
	if err != nil {
		t.Fatal(err)
	}
	v := viewTrace(t, browser.Start(t), data, browser.View{Width: 1400, Height: 900})
	if got, want := processes(v), []string{"worker 0 on h0", "worker 1 on h1", "server 0 on h0 (incomplete)", "server 1 on h1"}; !slices.Equal(got, want) {
		t.Errorf("processes %q, want %q", got, want)
	}
	v.Show(0, 200, true)
	v.Screenshot("timeline")
	v.Clean()
}

// What `launch ctl trace` writes of a running job that trains is what a viewer shows: every
// process, lane, span and arrow.
func TestAViewerReadsTheTraceOfARunningJob(t *testing.T) {
	chromium := browser.Start(t)
	const steps = 5
	testbuild.NeedsWorkspace(t)
	bin := t.TempDir()
	if err := testbuild.Programs(bin, "launch", "internal/testing/countjob"); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "launch"), args...)
		cmd.Dir, cmd.Env = folder, append(os.Environ(), "XDG_RUNTIME_DIR="+folder)
		return cmd
	}
	var said bytes.Buffer
	// Its steps take some milliseconds. A job of many small keys with nothing to compute has
	// spans of a tenth of a microsecond, and for some of them the viewer warns that it finds no
	// span where an arrow begins, although the file has it.
	job := command("-n", "3", "-s", "2", "--", filepath.Join(bin, "countjob"), "--checkpoints", filepath.Join(folder, "checkpoints"), "--finish", filepath.Join(folder, "never"))
	job.Stdout, job.Stderr = &said, &said
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = job.Process.Signal(syscall.SIGTERM)
		_ = job.Wait()
		if t.Failed() {
			t.Logf("the job said:\n%s", said.String())
		}
	})
	var trace []byte
	for begin := time.Now(); ; {
		out, err := command("ctl", "trace", "--steps", fmt.Sprint(steps), "-o", "t.json.gz").CombinedOutput()
		if err == nil {
			if trace, err = os.ReadFile(filepath.Join(folder, "t.json.gz")); err != nil {
				t.Fatal(err)
			}
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("launch ctl trace: %v\n%s", err, out)
		}
	}

	v := viewTrace(t, chromium, trace, browser.View{Width: 1600, Height: 1200})
	begin, end := 0.0, 0.0
	for _, p := range v.Model.Processes {
		// lanes counts the spans by the lane's name without its number.
		lanes := map[string]int{}
		for _, l := range p.Threads {
			lanes[unnumbered(l.Name)] += len(l.Slices)
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
	if got := strings.Join(processes(v), ", "); got != "worker 0 on localhost, worker 1 on localhost, worker 2 on localhost, server 0 on localhost, server 1 on localhost" {
		t.Errorf("processes: %s", got)
	}
	v.Show(begin, begin+(end-begin)/4, true)
	v.Screenshot("ctl-trace")
	v.Clean()
}
