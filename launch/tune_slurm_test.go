package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/testing/slurmtest"
)

// slurmStudy writes a study of four trials, each of which says in which step it runs and waits for
// a file, into a folder.
func slurmStudy(t *testing.T, more string) (dir, free string) {
	t.Helper()
	dir = t.TempDir()
	free = filepath.Join(dir, "free")
	text := `name: steps
metric: value
mode: max
command: 'echo trial {x} on $SLURMD_NODENAME; until [ -e ` + free + ` ]; do sleep 0.02; done; echo value={x} step=1'
space: {x: {grid: [1, 2, 3, 4]}}
` + more
	if err := os.WriteFile(filepath.Join(dir, "study.yaml"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir, free
}

var onNode = regexp.MustCompile(`trial \d on (n\d)`)

// numberedStep matches a step of srun and its node; the batch script has one of its own.
var numberedStep = regexp.MustCompile(`(?m)^\d+\.\d+ (n\d)$`)

// attemptsOf are the attempts of a study that have begun, by their folders, with their nodes.
func attemptsOf(dir string) map[string]string {
	found := make(map[string]string)
	folders, _ := filepath.Glob(filepath.Join(dir, "runs", "steps", "trials", "*", "attempt-*"))
	for _, folder := range folders {
		b, _ := os.ReadFile(filepath.Join(folder, "worker_0.log"))
		if m := onNode.FindStringSubmatch(string(b)); m != nil {
			found[folder] = m[1]
		}
	}
	return found
}

// awaitAttempts waits until so many attempts have begun.
func awaitAttempts(t *testing.T, c *slurmtest.Cluster, id, dir string, n int) map[string]string {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if s := attemptsOf(dir); len(s) >= n {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s the attempts %v have begun, want %d:\n%s", patience, attemptsOf(dir), n, c.Output(id))
		}
	}
}

// searchOnSlurm submits a batch job that searches.
func searchOnSlurm(t *testing.T, c *slurmtest.Cluster, dir string) (id string) {
	t.Helper()
	return c.Batch(t, fmt.Sprintf("#!/bin/bash\nexec %s tune --status-listen off %s\n", launchProgram, filepath.Join(dir, "study.yaml")),
		"--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=4", "--no-kill", "--chdir="+dir)
}

// Each trial of a search within an allocation runs in a step of its own: with processors of its
// own, on all nodes, and with none left at the end, also of a search that is cancelled.
func TestTrialsAreStepsOfSlurm(t *testing.T) {
	t.Parallel()
	needProc(t)
	c := slurmtest.Start(t, slurmtest.Config{Nodes: 2})
	for name, resources := range map[string]string{"one process": "resources: {cpus: 2}\n", "a job": "resources: {slots: 2, servers: 1}\n"} {
		dir, free := slurmStudy(t, resources)
		id := searchOnSlurm(t, c, dir)
		begun := awaitAttempts(t, c, id, dir, 4) // all at once: two on each node
		steps := []string{}
		for _, m := range numberedStep.FindAllStringSubmatch(c.Run(t, "squeue", "--steps", "--noheader", "--format=%i %N"), -1) {
			steps = append(steps, m[1])
		}
		if err := os.WriteFile(free, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		c.Await(t, id, "COMPLETED")
		ran := slices.Sorted(maps.Values(begun))
		slices.Sort(steps)
		if want := []string{"n1", "n1", "n2", "n2"}; !slices.Equal(ran, want) || !slices.Equal(steps, want) {
			t.Errorf("%s: trials ran on %v, in steps on %v, want %v:\n%s", name, ran, steps, want, c.Output(id))
		}
		if out := c.Output(id); !strings.Contains(out, "with value 4") {
			t.Errorf("%s: the search ended with\n%s", name, out)
		}
		c.AwaitEmptyQueue(t, 10*time.Second, "--steps")
	}
	// One that is cancelled leaves nothing either.
	dir, _ := slurmStudy(t, "resources: {slots: 2, servers: 1}\n")
	id := searchOnSlurm(t, c, dir)
	awaitAttempts(t, c, id, dir, 2)
	c.Run(t, "scancel", "--signal=TERM", "--batch", id)
	c.AwaitOutput(t, id, "to resume: ")
	c.AwaitNoProcess(t, 10*time.Second)
	c.AwaitEmptyQueue(t, 10*time.Second)
}

// A node that dies ends the steps there. Their trials run again elsewhere, and no trial has failed.
func TestASearchOnSlurmLosesANode(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("waits half a minute for Slurm: runs with PARAGON_TEST_SLOW=1 (make slowtest)")
	}
	t.Parallel()
	needProc(t)
	c := slurmtest.Start(t, slurmtest.Config{Nodes: 2})
	dir, free := slurmStudy(t, "resources: {cpus: 2}\n")
	id := searchOnSlurm(t, c, dir)
	before := awaitAttempts(t, c, id, dir, 4)
	c.KillNode(t, "n2")
	c.AwaitOutput(t, id, "a step could not be started on a node; the node is removed")
	if err := os.WriteFile(free, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	c.Await(t, id, "COMPLETED")
	out := c.Output(id)
	again := 0
	for folder, node := range attemptsOf(dir) {
		if _, known := before[folder]; !known {
			again++
			if node != "n1" {
				t.Errorf("%s runs on %s, which is gone", folder, node)
			}
		}
	}
	if again != 2 || !strings.Contains(out, "with value 4") {
		t.Errorf("%d trials ran again, want 2:\n%s", again, out)
	}
}
