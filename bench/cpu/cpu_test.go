package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// cpu runs the command.
func cpu(t *testing.T, in string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	app := newApp()
	app.Reader, app.Writer, app.ErrWriter = strings.NewReader(in), &out, &out
	err := app.RunContext(t.Context(), append([]string{"cpu"}, args...))
	return out.String(), err
}

// Each command prints lines that benchstat reads.
func TestPrintsBenchmarkLines(t *testing.T) {
	for _, test := range []struct {
		args []string

		// want is what the names must be.
		want string

		lines int
	}{
		{[]string{"scaling", "--model", "mlp", "--batch", "2", "--threads", "1,2,16", "--time", "0s", "--steps", "1", "--ops"}, `BenchmarkScaling/model=mlp/batch=2/threads=(1|2|16)/dtype=float32`, 3},
	} {
		out, err := cpu(t, "", test.args...)
		if err != nil {
			t.Errorf("%q: %v", test.args, err)
			continue
		}
		got := regexp.MustCompile(`(?m)^`+test.want+` \t\d+(\t[0-9.]+ [a-zA-Z/-]+)+$`).FindAllString(out, -1)
		if len(got) < test.lines {
			t.Errorf("%q: got %d lines like %q, want %d\n%s", test.args, len(got), test.want, test.lines, out)
		}
	}
}

func TestServesTurns(t *testing.T) {
	out, err := cpu(t, "run 0\nmemory\nrun 0.01\n", "serve", "--model", "mlp", "--batch", "2", "--threads", "1")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 4 || lines[0] != "ready" {
		t.Fatalf("got %q, want ready and three answers", lines)
	}
	var steps, seconds, used float64
	if _, err := fmt.Sscan(lines[1], &steps, &seconds, &used); err != nil || steps != 1 || seconds <= 0 {
		t.Errorf("run 0: got %q (%v), want one step", lines[1], err)
	}
	var plan, grown, peak int64
	if _, err := fmt.Sscan(lines[2], &plan, &grown, &peak); err != nil || plan < 4*784*512 {
		t.Errorf("memory: got %q (%v), want at least the bytes of the parameters", lines[2], err)
	}
	if _, err := cpu(t, "walk\n", "serve", "--model", "mlp", "--batch", "2"); err == nil || !strings.Contains(err.Error(), `"walk"`) {
		t.Errorf("a line that is no question: got error %v, want one that names it", err)
	}
}

// Attention has parameters and no update.
func TestServesAttention(t *testing.T) {
	out, err := cpu(t, "run 0\n", "serve", "--model", "attention", "--batch", "1", "--threads", "1")
	if err != nil || !regexp.MustCompile(`^ready\n1 [0-9.e-]+ [0-9.e-]+\n$`).MatchString(out) {
		t.Errorf("got %q and error %v, want ready and one step", out, err)
	}
}

// The losses are of a model that learns, and a peer finds all that it repeats them by.
func TestCurve(t *testing.T) {
	folder := t.TempDir()
	text := filepath.Join(folder, "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("again and again "), 100), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := cpu(t, "", "curve", "--text", text, "--out", folder, "--steps", "5"); err != nil || !strings.HasPrefix(out, "5 steps, loss 5.5") {
		t.Fatalf("got %q and error %v, want a first loss of about ln 256", out, err)
	}
	data, err := os.ReadFile(filepath.Join(folder, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	var run recorded
	if err := json.Unmarshal(data, &run); err != nil || len(run.Losses) != 5 || run.Losses[4] > run.Losses[0]-0.2 {
		t.Errorf("got losses %v (%v), want five that fall", run.Losses, err)
	}
	for name, size := range map[string]int{"weights.bin": 4 * curveModel.Parameters(), "batches.bin": 5 * curveBatch * (curveLength + 1)} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Size() != int64(size) {
			t.Errorf("%s: got %v (%v), want %d bytes", name, info, err, size)
		}
	}
	short := filepath.Join(folder, "short")
	if err := os.WriteFile(short, []byte("short"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := cpu(t, "", "curve", "--text", short, "--out", folder); err == nil || !strings.Contains(err.Error(), "has 5 bytes") {
		t.Errorf("a short text: got error %v, want one with its length", err)
	}
}

func TestProfileAddsUp(t *testing.T) {
	out, err := cpu(t, "", "profile", "--model", "mlp", "--batch", "2", "--steps", "1", "--ops", "1")
	if err != nil {
		t.Fatal(err)
	}
	var sum, all float64
	for _, m := range regexp.MustCompile(`(?m)^(\w+) +([0-9.]+) ms +[0-9.]+ %$`).FindAllStringSubmatch(out, -1) {
		var ms float64
		if _, err := fmt.Sscan(m[2], &ms); err != nil {
			t.Fatal(err)
		}
		if m[1] == "all" {
			all = ms
		} else {
			sum += ms
		}
	}
	if all <= 0 || sum < all-0.1 || sum > all+0.1 {
		t.Errorf("kinds take %v ms and all %v ms, want the same, above 0:\n%s", sum, all, out)
	}
}

func TestTrainsAsAWorker(t *testing.T) {
	out, err := cpu(t, "", "train", "--model", "mlp", "--batch", "2", "--threads", "1", "--steps", "2")
	if err != nil || !strings.Contains(out, "spell 2 ") {
		t.Errorf("got %q and error %v, want a spell of 2 steps", out, err)
	}
}

func TestRefusesByName(t *testing.T) {
	for _, test := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--model", "x"}, `--model is "x"`},
		{[]string{"--dtype", "float8"}, `--dtype is "float8"`},
		{[]string{"--batch", "0"}, "--batch is 0"},
		{[]string{"--model", "gpt2-124m-token", "--batch", "2"}, "--batch is 2"},
		{[]string{"--model", "gpt2-124m-read", "--batch", "1", "--dtype", "bf16"}, "--dtype bf16"},
	} {
		if _, err := cpu(t, "", append([]string{"serve"}, test.flags...)...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got error %v, want one with %s", test.flags, err, test.want)
		}
	}
}

func TestASpellIsAtLeastOneStep(t *testing.T) {
	n := 0
	s, err := spellOf(t.Context(), 3*time.Nanosecond, func(context.Context) error { n++; return nil })
	if err != nil || s.steps != n || n < 1 {
		t.Errorf("got %d steps of %d (%v), want at least one", s.steps, n, err)
	}
}
