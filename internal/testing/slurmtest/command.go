package slurmtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// daemonVariable marks the cluster's daemons, whose environment no job has.
const daemonVariable = "SLURMTEST_DAEMON"

// Env is this process's environment with the cluster in place of any other, and of the job that the
// test itself runs in.
func (c *Cluster) Env() []string {
	env := []string{"SLURM_CONF=" + c.config}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SLURM") && !strings.HasPrefix(v, "SBATCH_") && !strings.HasPrefix(v, "SALLOC_") {
			env = append(env, v)
		}
	}
	return append(env, c.env...)
}

// Config is the file that the variable SLURM_CONF names for commands of the cluster.
func (c *Cluster) Config() string { return c.config }

// Command is a command with the cluster's environment: srun, sbatch, scancel, scontrol, or a
// program that runs them.
func (c *Cluster) Command(name string, args ...string) *exec.Cmd {
	return c.CommandContext(context.Background(), name, args...)
}

// CommandContext is Command that is killed when ctx ends.
func (c *Cluster) CommandContext(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Dir = c.Env(), c.Dir
	return cmd
}

// Run runs a command and returns what it printed, without the last line end.
func (c *Cluster) Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := c.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// Batch submits a script with options of sbatch, and returns the job's ID. The output is in
// Dir/ID.out.
func (c *Cluster) Batch(t testing.TB, script string, options ...string) string {
	t.Helper()
	cmd := c.Command("sbatch", append([]string{"--parsable", "--output=" + filepath.Join(c.Dir, "%j.out")}, options...)...)
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("sbatch: %v: %s", err, exit.Stderr)
	} else if err != nil {
		t.Fatalf("sbatch: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// Output is what a job of Batch has printed.
func (c *Cluster) Output(id string) string {
	b, _ := os.ReadFile(filepath.Join(c.Dir, id+".out"))
	return string(b)
}

// Field is a field of a job as scontrol shows it, such as JobState, ExitCode, Restarts or Reason;
// empty: there is none.
func (c *Cluster) Field(id, name string) string {
	out, _ := c.Command("scontrol", "--oneliner", "show", "job", id).Output()
	for _, f := range strings.Fields(string(out)) {
		if value, ok := strings.CutPrefix(f, name+"="); ok {
			return value
		}
	}
	return ""
}

// Await waits until a job has one of the states, such as RUNNING, COMPLETED, FAILED, and returns
// it. It gives up after 60 s, or when the job has ended in another state.
func (c *Cluster) Await(t testing.TB, id string, states ...string) string {
	t.Helper()
	for deadline := time.Now().Add(2 * patience); ; time.Sleep(20 * time.Millisecond) {
		state := c.Field(id, "JobState")
		for _, want := range states {
			if state == want {
				return state
			}
		}
		switch state {
		case "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY":
			t.Fatalf("job %s is %s, want %v; its output:\n%s", id, state, states, c.Output(id))
		}
		if time.Now().After(deadline) {
			t.Fatalf("job %s is %s after %s, want %v; its output:\n%s", id, state, 2*patience, states, c.Output(id))
		}
	}
}

// AwaitOutput waits until a job of Batch has printed a text.
func (c *Cluster) AwaitOutput(t testing.TB, id, text string) {
	t.Helper()
	for deadline := time.Now().Add(2 * patience); !strings.Contains(c.Output(id), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("job %s (%s) has not printed %q after %s; its output:\n%s", id, c.Field(id, "JobState"), text, 2*patience, c.Output(id))
		}
	}
}
