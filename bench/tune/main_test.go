package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What was saved gives the same table when it is loaded, without a search.
func TestTables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "regrets.json")
	common := []string{"--seeds", "2", "--trials", "12", "--parallel", "1,4", "--functions", "Branin,mixed,bowl with noise"}
	var out, again strings.Builder
	if err := run(append(common, "--only", "TPE,GP,CMAES", "--save", file), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Branin", "smooth", "branching", "noisy", "random, 1", "TPE, 4", "GP", "CMAES", "quartiles"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables have no %q:\n%s", want, out.String())
		}
	}
	if err := run(append(common, "--only", "none", "--load", file), &again); err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(out.String(), "\n\n")
	if second, _, _ := strings.Cut(again.String(), "\n\n"); first != second {
		t.Errorf("loaded:\n%s\nwant:\n%s", second, first)
	}

	// What all are compared with is there whatever number runs at once.
	var eight strings.Builder

	if err := run([]string{"--seeds", "2", "--trials", "12", "--parallel", "8", "--functions", "Branin", "--only", "TPE"}, &eight); err != nil {
		t.Fatal(err)
	}
	if all := out.String() + again.String() + eight.String(); strings.Contains(all, "NaN") {
		t.Errorf("a table has NaN:\n%s", all)
	}
}

// A program takes part by the protocol of external suggesters.
func TestAProgramTakesPart(t *testing.T) {
	var out strings.Builder
	answer := `n=0; while read -r line; do n=$((n+1)); echo "{\"id\": $n, \"params\": {\"x\": 3.141592653589793, \"y\": 2.275}}"; done`
	file := filepath.Join(t.TempDir(), "peer.sh")
	if err := os.WriteFile(file, []byte(answer), 0o666); err != nil {
		t.Fatal(err)
	}
	err := run([]string{"--seeds", "1", "--trials", "3", "--parallel", "1", "--functions", "Branin", "--only", "none", "--program", "peer=sh " + file}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "0.0000 [0.0000 0.0000]") || !strings.Contains(out.String(), "peer, 1") {
		t.Errorf("the program knows the minimum:\n%s", out.String())
	}
}

// The same seeds give the same table, in which random search is what the others are compared with.
func TestCosts(t *testing.T) {
	args := []string{"--costs", "--seeds", "2", "--trials", "12", "--parallel", "1,4", "--functions", "Branin,bowl with noise", "--only", "random,Auto per time"}
	var out, again strings.Builder
	for _, w := range []*strings.Builder{&out, &again} {
		if err := run(args, w); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"| all | at once |", "| first up |", "| Auto per time | 4 |", "| random | 1 |", "geometric means over 8 functions"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables have no %q:\n%s", want, out.String())
		}
	}
	if out.String() != again.String() || strings.Contains(out.String(), "NaN") {
		t.Errorf("got\n%s\nand again\n%s", out.String(), again.String())
	}
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{{"--only", "nobody"}, {"--trials", "x"}, {"--parallel", "0"}, {"--seeds", "0"}, {"--unknown"}, {"--functions", "none"},
		{"--program", "peer"}, {"--only", "none", "--load", "/there/is/no/file"}, {"--costs", "--only", "nobody"}, {"--costs", "--seeds", "0"}} {
		if err := run(args, &strings.Builder{}); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
