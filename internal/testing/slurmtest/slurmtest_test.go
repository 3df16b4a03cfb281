package slurmtest

import (
	"strings"
	"testing"
	"time"
)

func TestJobsRunAndNothingIsLeft(t *testing.T) {
	t.Parallel()
	c := Start(t, Config{GPUs: 2})
	id := c.Batch(t, "#!/bin/sh\nsrun --ntasks-per-node=1 sh -c 'echo $SLURMD_NODENAME ${SLURM_STEP_GPUS:-none}'; exit 3\n", "--nodes=4", "--gpus-per-node=2")
	c.Await(t, id, "FAILED")
	if got, want := c.Field(id, "ExitCode"), "3:0"; got != want {
		t.Errorf("exit code %s, want %s", got, want)
	}
	for _, node := range c.Nodes {
		if want := node + " 0,1\n"; !strings.Contains(c.Output(id), want) {
			t.Errorf("the output has no %q:\n%s", want, c.Output(id))
		}
	}
	c.AwaitNoProcess(t, 5*time.Second)
}

func TestAKilledNodeTakesItsProcessesAlongAndComesBack(t *testing.T) {
	t.Parallel()
	c := Start(t, Config{Nodes: 2})
	id := c.Batch(t, "#!/bin/sh\nsrun --no-kill --ntasks-per-node=1 sh -c 'echo here; sleep 1000'\n", "--nodes=2", "--no-kill")
	c.AwaitOutput(t, id, "here\nhere\n")
	on := func(node string) (n int) {
		for _, p := range c.Processes() {
			if p.Node == node {
				n++
			}
		}
		return n
	}
	if on("n1") == 0 || on("n2") == 0 {
		t.Fatalf("want processes on both nodes, got %v", c.Processes())
	}
	c.KillNode(t, "n2")
	if on("n1") == 0 || on("n2") > 0 || len(c.daemons("n2")) > 0 {
		t.Errorf("want processes on n1 only, got %v and %v", c.Processes(), c.daemons("n2"))
	}
	c.StartNode(t, "n2")
	c.Run(t, "scancel", id)
	c.Await(t, id, "CANCELLED")
	c.AwaitNoProcess(t, 15*time.Second)
	c.Run(t, "srun", "--nodelist=n2", "--immediate=20", "true")
}

func TestWithoutMungeNoCommandWorks(t *testing.T) {
	t.Parallel()
	c := Start(t, Config{Nodes: 1})
	c.StopMunge(t)
	if out, err := c.Command("sinfo").CombinedOutput(); err == nil {
		t.Errorf("srun worked: %s", out)
	}
	c.StartMunge(t)
	c.Run(t, "srun", "true")
}
