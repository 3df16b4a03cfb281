package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/testing/slurmtest"
)

// slurmStudy writes a study of four trials, each of which says in which step it runs and waits for a file, into a folder.
func slurmStudy(t *testing.T, more string) (dir, free string) {
	t.Helper()
	dir = t.TempDir()
	free = filepath.Join(dir, "free")
	text := `name: steps
metric: value
mode: max
command: 'echo trial {x} in step $SLURM_STEP_ID on $SLURMD_NODENAME with $SLURM_CPUS_PER_TASK CPUs; until [ -e ` + free + ` ]; do sleep 0.02; done; echo value={x} step=1'
space: {x: {grid: [1, 2, 3, 4]}}
` + more
	if err := os.WriteFile(filepath.Join(dir, "study.yaml"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir, free
}

var inStep = regexp.MustCompile(`trial (\d) in step (\d+) on (n\d) with (\d+) CPUs`)

// steps are the steps in which the trials of a study have run so far, by number, with the nodes.
func stepsOf(dir string) map[string]string {
	found := make(map[string]string)
	logs, _ := filepath.Glob(filepath.Join(dir, "runs", "steps", "trials", "*", "attempt-*", "worker_0.log"))
	for _, path := range logs {
		b, _ := os.ReadFile(path)
		if m := inStep.FindStringSubmatch(string(b)); m != nil {
			found[m[2]] = m[3]
		}
	}
	return found
}

// awaitSteps waits until so many steps have run.
func awaitSteps(t *testing.T, c *slurmtest.Cluster, id, dir string, n int) map[string]string {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if s := stepsOf(dir); len(s) >= n {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s trials ran in the steps %v, want %d:\n%s", patience, stepsOf(dir), n, c.Output(id))
		}
	}
}

// search submits a batch job that searches.
func searchOnSlurm(t *testing.T, c *slurmtest.Cluster, dir string) (id string) {
	t.Helper()
	return c.Batch(t, fmt.Sprintf("#!/bin/bash\nexec %s tune --status-listen off %s\n", launchProgram, filepath.Join(dir, "study.yaml")),
		"--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=4", "--no-kill", "--chdir="+dir)
}

// Each trial of a search within an allocation runs in a step of its own: with processors of its own, on all nodes, and with none left at the end.
func TestTrialsAreStepsOfSlurm(t *testing.T) {
	t.Parallel()
	needProc(t)
	c := slurmtest.Start(t, slurmtest.Config{Nodes: 2})
	for name, resources := range map[string]string{"one process": "resources: {cpus: 2}\n", "a job": "resources: {slots: 2, servers: 1}\n"} {
		dir, free := slurmStudy(t, resources)
		id := searchOnSlurm(t, c, dir)
		steps := awaitSteps(t, c, id, dir, 4) // all at once: two on each node
		if err := os.WriteFile(free, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		c.Await(t, id, "COMPLETED")
		nodes := make(map[string]int)
		for _, node := range steps {
			nodes[node]++
		}
		if nodes["n1"] != 2 || nodes["n2"] != 2 {
			t.Errorf("%s: trials ran in the steps %v, want two on each node:\n%s", name, steps, c.Output(id))
		}
		if out := c.Output(id); !strings.Contains(out, "best: trial 4 with value 4") && !strings.Contains(out, "with value 4") {
			t.Errorf("%s: the search ended with\n%s", name, out)
		}
		if left := c.Run(t, "squeue", "--steps", "--noheader"); left != "" {
			t.Errorf("%s: steps are left: %s", name, left)
		}
	}
	c.AwaitNoProcess(t, 5*time.Second)
}

// A node that dies ends the steps there. Their trials run again elsewhere, and no trial has failed.
func TestASearchOnSlurmLosesANode(t *testing.T) {
	t.Parallel()
	needProc(t)
	c := slurmtest.Start(t, slurmtest.Config{Nodes: 2})
	dir, free := slurmStudy(t, "resources: {cpus: 2}\n")
	id := searchOnSlurm(t, c, dir)
	before := awaitSteps(t, c, id, dir, 4)
	c.KillNode(t, "n2")
	c.AwaitOutput(t, id, "a node takes no steps and is removed")
	if err := os.WriteFile(free, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	c.Await(t, id, "COMPLETED")
	out := c.Output(id)
	again := 0
	for step, node := range stepsOf(dir) {
		if _, known := before[step]; !known {
			again++
			if node != "n1" {
				t.Errorf("step %s runs on %s, which is gone", step, node)
			}
		}
	}
	if again != 2 || !strings.Contains(out, "with value 4") {
		t.Errorf("%d trials ran again, want 2:\n%s", again, out)
	}
}

// A search that is cancelled leaves no step and no process.
func TestACancelledSearchOnSlurmLeavesNothing(t *testing.T) {
	t.Parallel()
	needProc(t)
	c := slurmtest.Start(t, slurmtest.Config{Nodes: 2})
	dir, _ := slurmStudy(t, "resources: {slots: 2, servers: 1}\n")
	id := searchOnSlurm(t, c, dir)
	awaitSteps(t, c, id, dir, 2)
	c.Run(t, "scancel", "--signal=TERM", "--batch", id)
	c.AwaitOutput(t, id, "to resume: ")
	for deadline := time.Now().Add(patience); !slices.Contains([]string{"FAILED", "CANCELLED"}, c.Field(id, "JobState")); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the job is %s:\n%s", c.Field(id, "JobState"), c.Output(id))
		}
	}
	c.AwaitNoProcess(t, 5*time.Second)
	if left := c.Run(t, "squeue", "--steps", "--noheader"); left != "" {
		t.Errorf("steps are left: %s", left)
	}
}
