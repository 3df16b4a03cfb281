package trace_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/bench/pollux/internal/trace"
	"github.com/paragon-train/paragon/bench/pollux/internal/trace/tracetest"
)

func TestTimesAreMeasuredOrInterpolated(t *testing.T) {
	apps, err := trace.Load(filepath.Join(tracetest.Write(t), "traces"))
	if err != nil {
		t.Fatal(err)
	}
	a := apps["cifar10"]
	if a.InitialBatch != 32 || a.MaxBatch != 32768 || a.MinLocalBatch != 4 || a.MaxLocalBatch != 32768 || a.Epochs != 3 {
		t.Errorf("got %+v", *a)
	}
	if m := apps["yolov3"].MaxLocalBatch; m != 8 {
		t.Errorf("the largest local batch of yolov3 is %d, want 8", m)
	}
	for _, c := range []struct {
		placement []int
		local     int
	}{{[]int{1}, 4}, {[]int{3}, 34}, {[]int{4, 4}, 1000}, {[]int{1, 1}, 64}, // measured, but for the local batch
		{[]int{4, 4, 4, 4}, 64}, {[]int{1, 1, 1, 1}, 20}, {[]int{2, 2, 2, 2}, 64}, {[]int{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}, 64}} {
		replicas := 0
		for _, r := range c.placement {
			replicas += r
		}
		got, err := a.Step(c.placement, c.local)
		if err != nil {
			t.Fatal(err)
		}
		if step, sync := tracetest.StepTime(len(c.placement), replicas, c.local); math.Abs(got.Step-step) > 1e-9 || math.Abs(got.Sync-sync) > 1e-9 {
			t.Errorf("placement %v, local batch %d: got %+v, want step %v and sync %v", c.placement, c.local, got, step, sync)
		}
	}
	for _, c := range []struct {
		placement []int
		local     int
	}{{[]int{1}, 3}, {[]int{1}, 32769}, {[]int{4, 4, 4, 4}, 2}} {
		if got, err := a.Step(c.placement, c.local); err == nil || !strings.Contains(err.Error(), "beyond what was measured") {
			t.Errorf("placement %v, local batch %d: got %+v and error %v", c.placement, c.local, got, err)
		}
	}
}

func TestEpochsAreInterpolatedByBatch(t *testing.T) {
	apps, err := trace.Load(filepath.Join(tracetest.Write(t), "traces"))
	if err != nil {
		t.Fatal(err)
	}
	a := apps["bert"]
	if got := a.Progress(0); got != 0 {
		t.Errorf("progress before the first epoch is %v", got)
	}
	if got := a.Progress(3); got != 3000 {
		t.Errorf("progress at the end is %v, want 3000", got)
	}
	for _, batch := range []int{32, 500, 32768} {
		sqr, variance, err := a.Noise(batch, 1)
		if err != nil || sqr != 1 || variance != 8 {
			t.Errorf("batch %d: noise %v, %v, error %v; want 1 and 8", batch, sqr, variance, err)
		}
	}
	for _, batch := range []int{31, 32769} {
		if _, _, err := a.Noise(batch, 0); err == nil || !strings.Contains(err.Error(), "want 32 to 32768") {
			t.Errorf("batch %d: error %v", batch, err)
		}
	}
}

func TestBadFoldersAreRefused(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"traces/ncf/placements.csv", "", "placements.csv is missing"},
		{"traces/ncf/placements.csv", "placement\n1\n", "has no column local_bsz"},
		{"traces/ncf/placements.csv", "placement,local_bsz,step_time,sync_time\n", "want a header and data"},
		{"traces/ncf/placements.csv", "placement,local_bsz,step_time,sync_time\n1,2,x,4\n", `line 2: step_time is "x", want a number`},
		{"traces/ncf/placements.csv", "placement,local_bsz,step_time,sync_time\n1,2,NaN,4\n", `step_time is "NaN", want a number`},
		{"traces/ncf/placements.csv", "placement,local_bsz,step_time,sync_time\n1,2,3\n", "wrong number of fields"},
		{"traces/ncf/scalability.csv", "num_nodes,num_replicas,local_bsz,step_time,sync_time\n4,4,4,1,1\n4,4,4,1,1\n", "point [4 4 4] comes twice"},
		{"traces/ncf/validation-x.csv", "progress\n1\n", "want validation-BATCH.csv"},
		{"traces/ncf/validation-32.csv", "progress,iteration,grad_sqr,grad_var\n", "want a header and data"},
	} {
		folder := tracetest.Write(t)
		path := filepath.Join(folder, c.file)
		if c.text == "" {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := trace.Load(filepath.Join(folder, "traces")); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q: got error %v, want %q", c.file, c.text, err, c.want)
		}
	}
	path := filepath.Join(t.TempDir(), "workload.csv")
	for _, c := range []struct{ line, want string }{
		{"a,5,nothing,1,1", `line 2: unknown application "nothing"`},
		{"a,x,bert,1,1", `line 2: "x" is no valid number`},
		{"a,5,bert,0,1", `line 2: "0" is no valid number`},
		{"a,5,bert,1,1\na,6,bert,1,1", "line 3: job a comes twice"},
		{"a,5,bert,1,1\nb,4,bert,1,1", "line 3: job b comes twice, or before the one above it"},
	} {
		if err := os.WriteFile(path, []byte("name,time,application,num_replicas,batch_size\n"+c.line+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := trace.LoadWorkload(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got error %v, want %q", c.line, err, c.want)
		}
	}
}
