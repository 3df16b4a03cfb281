package tune_test

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/jobs"
)

// onSteps are Jobs on two nodes, whose steps are processes of this machine. asked are the steps
// that were asked for.
func onSteps(t *testing.T, kind string, words func(r jobs.TaskRequest) []string) (j *tune.Jobs, asked func() []jobs.TaskRequest) {
	t.Helper()
	var mu sync.Mutex
	var all []jobs.TaskRequest
	t.Setenv(kindVariable, kind)
	j = &tune.Jobs{NoServers: true, Launch: launchProgram(t), Address: "127.0.0.1", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	j.Cluster = &jobs.Cluster{
		Nodes: []jobs.ClusterNode{{Name: "n1", CPUs: 2}, {Name: "n2", CPUs: 2, GPUs: 1}}, Env: os.Environ(),
		Command: func(r jobs.TaskRequest) []string {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, r)
			return words(r)
		},
	}
	return j, func() []jobs.TaskRequest {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func anywhere(jobs.TaskRequest) []string { return []string{"env"} }

// Each attempt runs in a step of its own, with the processors that it was allocated.
func TestTrialsRunInSteps(t *testing.T) {
	for name, r := range map[string]tune.Resources{"a process": {CPUsPerSlot: 2}, "a job": {Slots: 2}} {
		j, asked := onSteps(t, "well", anywhere)
		j.Resources, j.NoServers = r, r.Slots == 0
		result := mustRun(t, jobsConfig(t, j))
		if got := result.Value(result.BestTrial()); got != 34 {
			t.Errorf("%s: best is %v, want 34", name, got)
		}
		nodes := make(map[string]bool)
		for _, s := range asked() {
			nodes[s.Node] = true
			if s.CPUs != 2 || s.GPUs != 0 || s.Overlap {
				t.Errorf("%s: asked for the step %+v, want one of 2 processors", name, s)
			}
		}
		if len(asked()) != 3 || len(nodes) != 2 {
			t.Errorf("%s: asked for the steps %+v, want three on two nodes", name, asked())
		}
	}
}

// A node that takes no steps is removed, and its trials run elsewhere. What steps get there counts
// for the search alone from then on.
func TestANodeThatTakesNoStepsIsRemoved(t *testing.T) {
	j, asked := onSteps(t, "well", func(r jobs.TaskRequest) []string {
		if r.Node == "n2" {
			return []string{"sh", "-c", "echo srun: error: node n2 is down >&2; exit 1"}
		}
		return []string{"env"}
	})
	j.Resources.CPUsPerSlot = 2
	result := mustRun(t, jobsConfig(t, j))
	for _, x := range result.Trials() {
		if x.State != tune.Completed || x.Location != "n1" {
			t.Errorf("trial %d is %s on %s, want completed on n1", x.Number, x.State, x.Location)
		}
	}
	last := asked()[len(asked())-1]
	if last.Node != "n1" || !last.Overlap {
		t.Errorf("the last step is %+v, want one on n1 that may overlap", last)
	}
	table, err := j.Nodes()
	var text strings.Builder
	if err == nil {
		_, err = table.WriteTo(&text)
	}
	if err != nil || !strings.Contains(text.String(), "n1") || strings.Contains(text.String(), "n2") {
		t.Errorf("the nodes are\n%s%v\nwant n1 alone", text.String(), err)
	}
}

// A step that ends while its trial runs is no failure of the trial.
func TestATrialIsRetriedWhenItsStepIsLost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid") // of the newest step
	j, _ := onSteps(t, "lost", func(jobs.TaskRequest) []string {
		return []string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, file}
	})
	cfg := jobsConfig(t, j)
	cfg.Parallel = 1
	cfg.Observers = []tune.Observer{&atEvents{call: map[string]func(){"report 1": func() { // it goes on for an hour
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			return
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err == nil {
			var process *os.Process
			if process, err = os.FindProcess(pid); err == nil {
				err = process.Kill()
			}
		}
		if err != nil {
			t.Errorf("kill the step: %v", err)
		}
	}}}}
	for _, x := range mustRun(t, cfg).Trials() {
		attempts := 1
		if x.Number == 1 {
			attempts = 2
		}
		if x.State != tune.Completed || x.Attempts != attempts || x.Failures[tune.UserCode] > 0 {
			t.Errorf("trial %d is %s after %d attempts, failures %v: %s; want completed after %d, none of the user's code", x.Number, x.State, x.Attempts, x.Failures, x.Error, attempts)
		}
	}
}

func TestStepsNameWhatTheyRefuse(t *testing.T) {
	for _, tc := range []struct {
		change func(j *tune.Jobs)
		want   string
	}{
		{func(j *tune.Jobs) { j.Resources.Hosts = 2 }, "a trial of 2 hosts"},
		{func(j *tune.Jobs) { j.Resources.Slots, j.Resources.GPUs = 2, 1 }, "a trial of 2 slots with 1 GPUs each"},
		{func(j *tune.Jobs) { j.Resources.CPUsPerSlot = 3 }, "3"},
		{func(j *tune.Jobs) { j.Address = "" }, "Jobs.Address is not"},
		{func(j *tune.Jobs) { j.HostFile = "hosts" }, "Jobs.HostFile and Jobs.Cluster are set"},
		{func(j *tune.Jobs) { j.Cluster.Nodes = nil }, "no Nodes"},
		{func(j *tune.Jobs) { j.Cluster.Nodes[0].CPUs = 0 }, "node n1 has 0 processors"},
	} {
		j, _ := onSteps(t, "well", anywhere)
		j.NoServers = false
		tc.change(j)
		if err := j.Fits(tune.Resources{}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got error %v, want one with %q", err, tc.want)
		}
	}
}
