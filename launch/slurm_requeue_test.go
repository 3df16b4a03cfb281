package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/slurmtest"
)

// A job that Slurm signals before its time limit writes a checkpoint, is requeued, and goes on:
// each example is used once an epoch over both runs.
func TestSlurmRequeuesAJobThatStoppedWithACheckpoint(t *testing.T) {
	t.Parallel()
	needProc(t)
	c := slurmtest.Start(t, slurmtest.Config{Nodes: 2})
	checkpoints, fast := t.TempDir(), filepath.Join(t.TempDir(), "fast")
	script, err := c.Command(launchProgram, "slurm", "script", "--nodes", "2", "--ntasks-per-node", "2", "-n", "3", "-s", "1",
		"--env", fitDir+"="+checkpoints, "--env", fitFast+"="+fast, "--", self(t)).Output()
	if err != nil {
		t.Fatal(err)
	}
	id := c.Batch(t, string(script))
	c.AwaitOutput(t, id, "step 4 of epoch 0")

	// The signal goes to the steps, whose agents it is not for.
	c.Run(t, "scancel", "--signal=USR1", id)
	c.AwaitOutput(t, id, "step 6 of epoch 0")

	// Slurm does so before the time limit.
	c.Run(t, "scancel", "--signal=USR1", "--batch", id)
	c.AwaitOutput(t, id, "launch: stopped with a checkpoint after ")
	if err := os.WriteFile(fast, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.Await(t, id, "COMPLETED")
	if n := c.Field(id, "Restarts"); n != "1" {
		t.Errorf("the job was started again %s times, want once", n)
	}
	out := c.Output(id)
	// The table of the second run has the workers' last lines, too.
	for text, want := range map[string]int{"| stopped with a checkpoint\n": 3, "INFO resumed ": 3, "| done as ": 3, ": examples lost 0, doubled 0\n": 6, "step 0 of epoch 0\n": 3} {
		if n := strings.Count(out, text); n != want {
			t.Errorf("the output has %q %d times, want %d", text, n, want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}
