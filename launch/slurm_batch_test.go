package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/testing/slurmtest"
)

// batch writes a script by launch slurm, and submits it.
func batch(t *testing.T, c *slurmtest.Cluster, args ...string) (id string) {
	t.Helper()
	cmd := c.Command(launchProgram, append([]string{"slurm"}, args...)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	script, err := cmd.Output()
	if err != nil {
		t.Fatalf("launch slurm %s: %v: %s", strings.Join(args, " "), err, errs.String())
	}
	return c.Batch(t, string(script))
}

func TestBatchJobsOnSlurm(t *testing.T) {
	t.Parallel()
	needProc(t)
	home := t.TempDir()
	c := slurmtest.Start(t, slurmtest.Config{Env: []string{"HOME=" + home}})
	left := func(t *testing.T, id string) {
		t.Helper()
		c.AwaitNoProcess(t, 5*time.Second)
		if _, err := os.Stat(filepath.Join(home, ".paragon", "slurm", id)); err == nil {
			t.Error("the folder of the job is still there")
		}
	}

	t.Run("success", func(t *testing.T) {
		id := batch(t, c, "script", "--nodes", "2", "-n", "4", "-s", "1", "--env", "V=it's $HOME", "--", self(t))
		c.Await(t, id, "COMPLETED")
		for rank, node := range []string{"n1", "n1", "n2", "n2"} {
			if want := fmt.Sprintf("worker %d  | rank %[1]d of 4 has its sums at %s in %s, V=%q\n", rank, node, c.Dir, "it's $HOME"); !strings.Contains(c.Output(id), want) {
				t.Errorf("the output has no %q:\n%s", want, c.Output(id))
			}
		}
		left(t, id)
	})

	t.Run("exit 3", func(t *testing.T) {
		id := batch(t, c, "script", "--nodes", "2", "-s", "1", "--", "if [ $PARAGON_RANK = 1 ]; then exit 3; fi; exec sleep 1000")
		c.Await(t, id, "FAILED")
		if got := c.Field(id, "ExitCode"); got != "3:0" {
			t.Errorf("exit code %s, want 3:0", got)
		}
		left(t, id)
	})

	t.Run("scancel", func(t *testing.T) {
		id := batch(t, c, "script", "--nodes", "2", "-s", "1", "--", "trap 'echo saved; exit' TERM; echo ready; while :; do sleep 0.05; done")
		c.AwaitOutput(t, id, "worker 0  | ready")
		c.AwaitOutput(t, id, "worker 1  | ready")
		c.Run(t, "scancel", id)
		c.Await(t, id, "CANCELLED")
		c.AwaitOutput(t, id, "worker 0  | saved")
		c.AwaitOutput(t, id, "worker 1  | saved")
		left(t, id)
	})

	t.Run("a killed launch", func(t *testing.T) {
		id := batch(t, c, "script", "--nodes", "2", "-s", "1", "--", "echo ready; exec sleep 1000")
		c.AwaitOutput(t, id, "worker 0  | ready")
		for _, p := range c.Processes() {
			if strings.Contains(p.Command, " --launcher slurm ") && strings.HasPrefix(p.Command, launchProgram) {
				kill(t, p.PID)
			}
		}
		c.Await(t, id, "FAILED")
		left(t, id)
	})

	t.Run("a second job joins and leaves, and a node dies", func(t *testing.T) {
		stop := filepath.Join(home, "stop")
		id := batch(t, c, "script", "--nodes", "2", "-s", "1", "--elastic-training-enabled", "--env", stopFile+"="+stop, "--", self(t))
		c.AwaitOutput(t, id, "begins as 1 of 2, joined false")
		joining := batch(t, c, "join", id, "--nodes", "1", "--sbatch", "--nodelist=n3")
		c.AwaitOutput(t, id, "begins as 2 of 3, joined true")
		if want := "n3-" + joining + " joined the job"; !strings.Contains(c.Output(id), want) {
			t.Errorf("the output has no %q:\n%s", want, c.Output(id))
		}

		// As Slurm does before its time limit; the workers get it, too, and this one knows no
		// SIGTERM.
		c.Run(t, "scancel", "--signal=TERM", joining)
		c.AwaitOutput(t, id, "worker 0  | goes on as 0 of 2")
		c.Await(t, joining, "FAILED")
		if got := c.Field(joining, "ExitCode"); got != "143:0" {
			t.Errorf("the job that joined and left has exit code %s, want 143:0", got)
		}
		c.KillNode(t, "n2")
		c.AwaitOutput(t, id, "worker 0  | goes on as 0 of 1")
		if err := os.WriteFile(stop, nil, 0o600); err != nil {
			t.Fatal(err)
		}

		// Slurm calls it COMPLETED only once it has found out about n2.
		c.AwaitOutput(t, id, "worker 0  | done as 0 of 1")
		left(t, id)
	})
}
