package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// withPython runs the section torch with a shell script in place of Python.
func withPython(t *testing.T, script string, limit time.Duration) []row {
	t.Helper()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("needs /bin/sh")
	}
	dir := t.TempDir()
	python := filepath.Join(dir, "python")
	if err := os.WriteFile(python, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return runTorch(t, settings{bin: dir, python: python, epochs: 1}, limit)
}

func runTorch(t *testing.T, s settings, limit time.Duration) []row {
	t.Helper()
	rep := &report{out: &bytes.Buffer{}}
	sec := sections[slices.IndexFunc(sections, func(s section) bool { return s.name == "torch" })]
	begun := time.Now()
	runSection(context.Background(), s, sec, limit, rep)
	if took := time.Since(begun); took > limit+20*time.Second {
		t.Errorf("it took %v, want at most %v and a little", took, limit)
	}
	for _, r := range rep.Rows {
		if r.Status == fail {
			t.Errorf("PyTorch's fault is ours: %+v", r)
		}
	}
	return rep.Rows
}

func TestPyTorchThatIsNotThereOrHangsIsARow(t *testing.T) {
	t.Parallel()
	const there = `if [ "$1" = -c ]; then echo 2.11.0+cu130 True; exit 0; fi
echo '{"torch": "2.11.0", "cudnn": 91900, "cuda": "13.0", "device": "NVIDIA H200"}'
echo 'some library says hello'
echo '{"variant": "eager", "type": "bf16", "batch": 512, "images_per_s": 50000.5, "ms": 10.24, "least_ms": 10.1, "loss": 2.3, "mib": 3000, "warm_s": 2}'
echo '{"variant": "compile", "type": "bf16", "batch": 512, "error": "OutOfMemoryError: CUDA out of memory"}'
`
	for name, c := range map[string]struct {
		script string
		limit  time.Duration
		rows   int

		// want is what the last row must have.
		want string
	}{
		"no PyTorch":            {"echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1\n", time.Minute, 1, "No module named 'torch'"},
		"no GPU":                {"echo 2.11.0 False\n", time.Minute, 1, "sees no GPU: 2.11.0 False"},
		"import hangs":          {"exec sleep 60\n", 6 * time.Second, 1, "killed"},
		"all is well":           {there + "exit 0\n", time.Minute, 3, "out of memory"},
		"crashes in the middle": {there + "echo 'terminate called' >&2; kill -SEGV $$\n", time.Minute, 4, "after 1 measurements: signal: segmentation fault: terminate called"},

		// One more process has its pipe.
		"hangs in the middle": {there + "sleep 60 & exec sleep 60\n", 6 * time.Second, 4, "no time is left"},
		"leaves one behind":   {there + "sleep 60 & exit 0\n", time.Minute, 3, "out of memory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows := withPython(t, c.script, c.limit)
			if len(rows) != c.rows || !strings.Contains(rows[len(rows)-1].Detail, c.want) || rows[len(rows)-1].Status != skip {
				t.Fatalf("got rows %+v, want %d, the last one with %q", rows, c.rows, c.want)
			}
			if c.rows > 2 && (rows[1].Value != 50000.5 || rows[1].Name != "eager bf16, batch 512" || rows[1].Unit != "images/s") {
				t.Errorf("got %+v, want the measurement", rows[1])
			}
		})
	}
}

// The script itself, on a CPU, with whatever PyTorch there is.
func TestPyTorchTrainsTheSameNetwork(t *testing.T) {
	const count = `
try:
    import torch
except Exception:
    print("none")
else:
    import pytorch
    print(sum(p.numel() for p in pytorch.network(torch).parameters()))
`
	python, parameters := "", ""

	// Importing it takes seconds, so the one that has it is asked at once.
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		out, err := exec.Command(p, "-c", count).Output()
		if parameters = strings.TrimSpace(string(out)); err != nil && !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s counts the parameters of PyTorch's network: %v", p, err)
		} else if err == nil && parameters != "none" {
			python = p
			break
		}
	}
	if python == "" {
		t.Skip("there is no PyTorch here (Debian: python3-torch)")
	}

	// Our own network has as many.
	if parameters != "11173962" {
		t.Errorf("PyTorch's network has %s parameters, want 11173962", parameters)
	}
	t.Setenv("OMP_NUM_THREADS", "1")
	rows := runTorch(t, settings{python: python, small: true, epochs: 1}, 2*time.Minute)
	find := func(name string) row {
		for _, r := range rows {
			if r.Name == name {
				return r
			}
		}
		t.Errorf("no row %q among %+v", name, rows)
		return row{}
	}
	for _, name := range []string{"eager bf16, batch 4", "eager bf16, batch 8"} {
		if r := find(name); r.Unit != "images/s" || !(r.Value > 0) {
			t.Errorf("got %+v, want a speed", r)
		}
	}
	for _, name := range []string{"compile bf16, batch 4", "eager-graph bf16, batch 4"} {
		// A speed, or that it is not there: both are right, and nothing is lost after it.
		if r := find(name); r.Status == fail {
			t.Errorf("got %+v", r)
		}
	}
}

func TestNoCaseOfPyTorchIsBegunThatIsNotKnown(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range torchCases {
		if f := strings.Fields(c); len(f) != 3 || seen[c] || !bytes.Contains(torchScript, []byte(`"`+f[0]+`"`)) || !bytes.Contains(torchScript, []byte(`"`+f[1]+`"`)) {
			t.Errorf("case %q: want a variant and a type that the script knows, and a batch, once", c)
		}
		seen[c] = true
	}
}
