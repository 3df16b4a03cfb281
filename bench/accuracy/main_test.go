package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The table is made of results that are there: a run that is in the file is not made again.
func TestTheTableIsOfTheResultsThatAreThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	var lines strings.Builder
	for _, c := range cells() {
		for seed := uint64(1); seed <= 2; seed++ {
			for _, adapt := range []bool{false, true} {
				r := result{runConfig: runConfig{c, seed, adapt}, Accuracy: 0.5 + 0.01*float64(seed), Batch: 32, Largest: 32}
				if adapt {
					r.Accuracy, r.Batch, r.Largest = r.Accuracy-0.001, 100, 256
				}
				text, err := json.Marshal(r)
				if err != nil {
					t.Fatal(err)
				}
				lines.Write(append(text, '\n'))
			}
		}
	}
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), &out, []string{"--results", path, "--seeds", "2", "--launch", "none"}); err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(strings.Split(out.String(), "\n")[1])
	if want := "mlp sgd 1 2 51.50 % 0.71 -0.10 -0.10 -0.10 100 256 pass"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := strings.Count(out.String(), "pass"); n != 16 {
		t.Errorf("got %d cells, want 16:\n%s", n, out.String())
	}

	// The table is of the seeds that were asked for: of 2 and 3, the second is not there.
	out.Reset()
	if err := run(t.Context(), &out, []string{"--results", path, "--first", "2", "--seeds", "2", "--launch", "none", "--for", "1ns"}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "pass") || !strings.Contains(out.String(), "Not all runs are done") {
		t.Errorf("of seeds 2 and 3, of which 3 is missing, got\n%s", out.String())
	}
}

// A cell passes with a lower bound of at least −1 and no seed below −3 beyond twice the spread.
func TestBars(t *testing.T) {
	for _, c := range []struct {
		row  row
		want bool
	}{
		{row{lower: -1, worst: -3}, true},
		{row{lower: -1.01, worst: -1}, false},
		{row{lower: -0.5, worst: -5, spread: 1}, true},
		{row{lower: -0.5, worst: -5.1, spread: 1}, false},
	} {
		if got := c.row.pass(); got != c.want {
			t.Errorf("%+v: got %t, want %t", c.row, got, c.want)
		}
	}
	have := map[runConfig]result{}
	c := cells()[0]
	for seed, pair := range [][2]float64{{0.40, 0.41}, {0.42, 0.40}, {0.44, 0.43}, {0.46, 0.46}} {
		have[runConfig{c, uint64(seed + 1), false}] = result{Accuracy: pair[0]}
		have[runConfig{c, uint64(seed + 1), true}] = result{Accuracy: pair[1]}
	}
	r := rowOf(have, c, 1, 4)
	// The differences are 1, −2, −1 and 0: the mean is −0.5, the deviation 1.291, and Student's
	// quantile for 3 degrees of freedom 2.353.
	for name, x := range map[string][2]float64{"fixed": {r.fixed, 43}, "spread": {r.spread, 2.582}, "mean": {r.mean, -0.5}, "lower": {r.lower, -2.019}, "worst": {r.worst, -2}} {
		if math.Abs(x[0]-x[1]) > 1e-3 {
			t.Errorf("%s: got %v, want %v", name, x[0], x[1])
		}
	}
}

// What is missing or out of range is named.
func TestBadArgumentsAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.jsonl")
	if err := os.WriteFile(path, []byte("{}\n{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--seeds", "1"}, "--seeds is 1"},
		{[]string{"--first", "-1"}, "--first is -1"},
		{[]string{"--results", path}, "line 2"},
		{[]string{"--worker", "{"}, "--worker"},
		{[]string{"--worker", `{"model":"x"}`}, `model "x" is unknown`},
	} {
		if err := run(t.Context(), new(strings.Builder), c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.args, err, c.want)
		}
	}
}
