package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/testbuild"
)

// Real processes: what launcher, scheduler, servers and workers have resident, and live on their heaps, is flat while servers, then workers,
// come and go.
func TestMemoryOfProcessesIsFlat(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("takes minutes; set PARAGON_TEST_SLOW")
	}
	dir := t.TempDir()
	if err := testbuild.Programs(dir, "launch", "bench/churn"); err != nil {
		t.Fatal(err)
	}
	for _, what := range [][]string{{"-servers", "400"}, {"-workers", "120"}} {
		out, err := exec.Command(filepath.Join(dir, "churn"), append(what, "-launch", filepath.Join(dir, "launch"))...).CombinedOutput()
		if t.Logf("%v:\n%s", what, out); err != nil {
			t.Errorf("%v: %v", what, err)
		}
	}
}
