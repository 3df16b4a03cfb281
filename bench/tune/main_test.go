package main

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	var out strings.Builder
	if err := run([]string{"--seeds", "2", "--trials", "12", "--parallel", "1,4", "--only", "random,TPE,GP,CMAES"}, &out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"Branin", "Hartmann6", "mixed", "random", "TPE", "GP", "CMAES", "median (mean) of 2 searches"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "NaN") {
		t.Errorf("the table has NaN:\n%s", text)
	}
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{{"--only", "nobody"}, {"--trials", "x"}, {"--parallel", "0"}, {"--seeds", "0"}, {"--unknown"}} {
		if err := run(args, &strings.Builder{}); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
