package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
	"github.com/paragon-train/paragon/internal/testing/testbuild"
)

// programs are the folder of launch and of this example, built once.
var programs string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tune-cifar10-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	programs = dir
	return m.Run()
}

// run runs the example in a folder that has nothing but it.
func run(t *testing.T, env []string, args ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds launch and starts processes")
	}
	testbuild.NeedsWorkspace(t)
	if _, err := os.Stat(filepath.Join(programs, "launch")); err != nil {
		if err := testbuild.Programs(programs, "launch", "examples/tune-cifar10"); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"launch", "tune-cifar10"} {
		if err := os.Link(filepath.Join(programs, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "tune-cifar10"), append([]string{"--train-examples", "128", "--test-examples", "64"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir()), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"curves.png", "report.html", "log.jsonl"} {
		if info, err := os.Stat(filepath.Join(dir, "runs/tune-cifar10", name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, want a file with something in it", name, err)
		}
	}
	return string(out)
}

func TestTrialsAreJobsThatASHAStops(t *testing.T) {
	out := run(t, nil, "--trials", "5", "--epochs", "9")
	for _, want := range []string{"5 trials: ", "completed", "pruned", "\nBest: "} {
		if !strings.Contains(out, want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
}

func TestTrialsRunOverTwoHosts(t *testing.T) {
	sshtest.Program(t, "rsync", "rsync")
	if testing.Short() {
		t.Skip("builds launch and starts processes")
	}
	s := sshtest.Start(t, 2)
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte(s.Hosts()), 0o666); err != nil {
		t.Fatal(err)
	}
	out := run(t, []string{"PARAGON_SSH=" + strings.Join(s.Client, " ")},
		"--trials", "2", "--epochs", "2", "--hosts", hosts, "--address", "127.0.0.1", "--folder", filepath.Join(t.TempDir(), "job"))
	place := fmt.Sprintf("started on %s:%d,%s:%[2]d with", s.Addresses[0], s.Port, s.Addresses[1])
	if !strings.Contains(out, place) || !strings.Contains(out, "\nBest: ") {
		t.Errorf("the output has no %q:\n%s", place, out)
	}
}
