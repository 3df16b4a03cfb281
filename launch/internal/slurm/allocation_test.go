package slurm

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// lookup is an environment of NAME=VALUE words.
func lookup(words ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, w := range words {
			if n, value, _ := strings.Cut(w, "="); n == name {
				return value, true
			}
		}
		return "", false
	}
}

func TestAnAllocationIsReadFromTheEnvironment(t *testing.T) {
	for _, tc := range []struct {
		name  string
		env   []string
		tasks int
		want  []hosts.Host
	}{
		{"one task each", []string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[1-2]", "SLURM_TASKS_PER_NODE=1(x2)"}, 2,
			[]hosts.Host{{Name: "n1", Slots: 1}, {Name: "n2", Slots: 1}}},
		{"uneven", []string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=b,a[01-02]", "SLURM_TASKS_PER_NODE=4,1(x2)", "SLURM_JOB_CPUS_PER_NODE=8,2(x2)"}, 6,
			[]hosts.Host{{Name: "b", Slots: 4}, {Name: "a01", Slots: 1}, {Name: "a02", Slots: 1}}},
		{"no tasks", []string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=a"}, 0, []hosts.Host{{Name: "a"}}},
		{"in a step, whose tasks are others", []string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=a[1-2]", "SLURM_STEP_ID=0", "SLURM_TASKS_PER_NODE=1"}, 0,
			[]hosts.Host{{Name: "a1"}, {Name: "a2"}}},
		{"the shell of salloc", []string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=a[1-2]", "SLURM_STEP_ID=4294967290", "SLURM_TASKS_PER_NODE=3(x2)"}, 6,
			[]hosts.Host{{Name: "a1", Slots: 3}, {Name: "a2", Slots: 3}}},
	} {
		a, err := Read(lookup(tc.env...))
		if err != nil || a.Job != "7" || a.Tasks() != tc.tasks || !slices.Equal(a.Hosts(), tc.want) {
			t.Errorf("%s: got %+v, %v; want %d tasks on %v", tc.name, a, err, tc.tasks, tc.want)
		}
	}
}

func TestABadAllocationIsAnErrorThatSaysWhatToDo(t *testing.T) {
	for _, tc := range []struct{ env, want string }{
		{"", "not inside a Slurm allocation: SLURM_JOB_ID is not set; run launch in a batch script (launch slurm script writes one) or within salloc"},
		{"SLURM_JOB_ID=7", `got SLURM_JOB_ID="7" and SLURM_JOB_NODELIST="", want both; pass Slurm's variables on to launch`},
		{"SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-", `SLURM_JOB_NODELIST: "n[1-" has a syntax error at character 5: got the end in a bracket, want a number`},
		{"SLURM_JOB_ID=7 SLURM_JOB_NODELIST=a,b,a", "SLURM_JOB_NODELIST: a is node 1 and node 3, want each once"},
		{"SLURM_JOB_ID=7 SLURM_JOB_NODELIST=a,b SLURM_TASKS_PER_NODE=2(x3)", "SLURM_TASKS_PER_NODE=2(x3) describes 3 nodes and SLURM_JOB_NODELIST=a,b 2; want the same number"},
		{"SLURM_JOB_ID=7 SLURM_JOB_NODELIST=a,b SLURM_TASKS_PER_NODE=2(y3)", `SLURM_TASKS_PER_NODE: "2(y3)" has a syntax error at character 2: got "(y3)", want a repetition such as (x3)`},
	} {
		if _, err := Read(lookup(strings.Fields(tc.env)...)); err == nil || err.Error() != tc.want {
			t.Errorf("%q: got %v, want %s", tc.env, err, tc.want)
		}
	}
}

func TestSlurmIsTheDefaultInAnAllocationButNotInAStep(t *testing.T) {
	for env, want := range map[string]bool{
		"":                                    false,
		"SLURM_JOB_ID=7":                      false,
		"SLURM_JOB_ID=7 SLURM_JOB_NODELIST=a": true,
		"SLURM_JOB_ID=7 SLURM_JOB_NODELIST=a SLURM_STEP_ID=3":          false,
		"SLURM_JOB_ID=7 SLURM_JOB_NODELIST=a SLURM_STEP_ID=4294967290": true,
		"SLURM_JOB_ID=7 SLURM_JOB_NODELIST=a SLURM_STEP_ID=4294967291": true,
	} {
		if got := Inside(lookup(strings.Fields(env)...)); got != want {
			t.Errorf("Inside(%q) is %t, want %t", env, got, want)
		}
	}
}

func TestCounts(t *testing.T) {
	for text, want := range map[string][]int{
		"1":            {1},
		"2(x3),1":      {2, 2, 2, 1},
		"4,1(x2)":      {4, 1, 1},
		"72(x1),36,10": {72, 36, 10},
	} {
		if got, err := Counts(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("Counts(%q) is %v, %v; want %v", text, got, err, want)
		}
	}
	for text, position := range map[string]int{
		"": 1, ",": 1, "1,": 3, "x": 1, "0": 1, "-1": 1, "+1": 1, "1 ": 1, "2(x0)": 2, "2(x3": 2, "2(3)": 2, "2(x3)(x4)": 2, "1,2(x3)4": 4, "2(x99999)": 1, "1(x65536),1": 11,
		"99999999": 1, "1,99999999999999999999": 3,
	} {
		got, err := Counts(text)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Position != position {
			t.Errorf("Counts(%q) is %v, %v; want an error at character %d", text, got, err, position)
		}
	}
}

// FuzzCounts wants no text to break Counts, or to take more memory than its limits.
func FuzzCounts(f *testing.F) {
	f.Add("2(x3),1")
	f.Add("1(x65536),1")
	f.Fuzz(func(t *testing.T, text string) {
		counts, err := Counts(text)
		if err == nil && (len(counts) == 0 || len(counts) > maxNodes || slices.Min(counts) < 1) {
			t.Errorf("Counts(%q) is %v", text, counts)
		}
	})
}
