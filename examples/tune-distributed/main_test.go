package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/testing/testbuild"
)

// Six trials of two workers and a server each, in real processes.
func TestSixDistributedTrialsHaveABestConfiguration(t *testing.T) {
	if testing.Short() {
		t.Skip("builds launch and starts 18 processes")
	}
	testbuild.NeedsWorkspace(t)
	bin, dir := t.TempDir(), t.TempDir()
	if err := testbuild.Programs(bin, "launch", "examples/tune-distributed"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "tune-distributed"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"6 trials: 6 completed", "Best hyperparameters found were: epochs=2 lr=0.0955"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
	for trial := range 6 {
		for rank := range 2 {
			path := filepath.Join(dir, fmt.Sprintf("runs/distributed/trials/trial-%06d/attempt-1/worker_%d.log", trial, rank))
			log, err := os.ReadFile(path)
			if want := fmt.Sprintf("worker %d of 2: epochs=", rank); err != nil || !strings.Contains(string(log), want) {
				t.Errorf("%s holds %q, %v, want %q", path, log, err, want)
			}
		}
	}
}
