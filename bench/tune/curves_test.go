package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// times are the columns of a table of curves that are measured.
var times = regexp.MustCompile(`(\d+\.\d\d +){2}\d+\.\d{3} +\d+\.\d{3}`)

// widths are the spaces and lines that make columns as wide as their longest text.
var widths = regexp.MustCompile(`  +|--+`)

// Rules on learning curves give the same tables for the same seeds, made or loaded.
func TestCurveTables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "curves.json")
	common := []string{"--curves", "judging", "--kinds", "steady,lengths", "--workers", "1,8", "--seeds", "2", "--trainings", "5", "--at", "50,100"}
	tables := func(more ...string) string {
		t.Helper()
		var out strings.Builder
		if err := run(append(append([]string(nil), common...), more...), &out); err != nil {
			t.Fatal(err)
		}
		kept := regexp.MustCompile(`(?m)^.*bench/tune.*$`).ReplaceAllString(out.String(), "")
		// Longer times make columns wider.
		return widths.ReplaceAllStringFunc(times.ReplaceAllString(kept, ""), func(run string) string { return run[:2] })
	}
	first := tables("--suggesters", "random,TPE", "--rules", "none,asha", "--save", file)
	for _, want := range []string{"50 %", "100 %", "steady", "lengths", "asha", "TPE", "full", "p99"} {
		if !strings.Contains(first, want) {
			t.Errorf("the tables have no %q:\n%s", want, first)
		}
	}
	if again := tables("--suggesters", "random,TPE", "--rules", "none,asha", "--searches", "1"); again != first {
		t.Errorf("again:\n%s\nwant:\n%s", again, first)
	}
	if loaded := tables("--suggesters", "none", "--load", file); loaded != first {
		t.Errorf("loaded:\n%s\nwant:\n%s", loaded, first)
	}
}

// A program takes part by its protocol: it proposes, pauses, stops and waits.
func TestAProgramTakesPartInCurves(t *testing.T) {
	script := `n=0; while read -r line; do case "$line" in
*'"op":"ask"'*) echo "{\"trial\": $n, \"params\": {\"learning rate\": 0.01, \"dropout\": 0.1, \"decay\": 0.001, \"width\": 64, \"batch\": 64, \"layers\": 2, \"smoothing\": 0.1}}"; n=$((n+1));;
*'"step":3,'*) echo '{"action": "stop"}';;
*'"op":"report"'*) echo '{"action": "continue"}';;
*) echo '{}';;
esac; done`
	file := filepath.Join(t.TempDir(), "peer.sh")
	if err := os.WriteFile(file, []byte(script), 0o666); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err := run([]string{"--curves", "steady 0", "--suggesters", "none", "--program", "peer=sh " + file, "--program-rules", "third", "--seeds", "1", "--trainings", "2", "--workers", "3"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "third") || !strings.Contains(out.String(), "peer") {
		t.Errorf("the tables have no row of the program:\n%s", out.String())
	}
}

func TestBadCurveArguments(t *testing.T) {
	for _, args := range [][]string{{"--curves", "nothing"}, {"--curves=tuning", "--rules", "x"}, {"--curves", "tuning", "--suggesters", "x"}, {"--curves", "tuning", "--workers", "0"},
		{"--curves", "tuning", "--seeds", "0"}, {"--curves", "tuning", "--kinds", "x"}, {"--curves", "tuning", "--program", "x"}, {"--curves", "tuning", "--at", "x"},
		{"--curves", "steady 0", "--suggesters", "none", "--load", "/there/is/no/file"},
		{"--curves", "steady 0", "--suggesters", "none", "--program", "peer=/there/is/no/program", "--seeds", "1"}} {
		if err := run(args, &strings.Builder{}); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
