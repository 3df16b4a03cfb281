package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/testing/slurmtest"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/slurm"
)

// allocate takes nodes of a cluster, and returns the variables that salloc would set, in place of
// this process's.
func allocate(t *testing.T, c *slurmtest.Cluster, nodes string, options ...string) (id string, env []string) {
	t.Helper()
	out := c.Run(t, "salloc", append([]string{"--no-shell", "--no-kill", "--nodelist=" + nodes}, options...)...)
	m := regexp.MustCompile(`job allocation ([0-9]+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("salloc printed %q", out)
	}
	return m[1], append(c.Env(), "SLURM_JOB_ID="+m[1], "SLURM_JOB_NODELIST="+nodes)
}

// slurmSite has the nodes of a cluster.
func slurmSite(t *testing.T, hosts int) *site {
	home := t.TempDir()
	c := slurmtest.Start(t, slurmtest.Config{Nodes: hosts, Env: []string{"HOME=" + home}})
	s := &site{dir: t.TempDir(), hosts: c.Nodes, homes: []string{home}}
	var env []string
	folder := ""
	s.flags = func(first int) []string {
		var id string
		id, env = allocate(t, c, strings.Join(c.Nodes[:first], ","))
		folder = home + "/.paragon/slurm/" + id
		return nil
	}
	s.env = func() []string { return env }
	s.join = func(t *testing.T, _ *elasticJob, i int) {
		id, _ := allocate(t, c, c.Nodes[i])
		cmd := c.Command("srun", "--jobid="+id, "--overlap", launchProgram, "agent", "--join", "@"+folder+"/address", "--secret-file", folder+"/secret")
		startCommand(t, nil, cmd, s.dir, c.Env())
	}
	// An agent of Slurm that is cut off has no relay that could be cut: its node dies.
	s.lose = func(t *testing.T, i int) { c.KillNode(t, c.Nodes[i]) }
	s.back = func(t *testing.T, i int) {
		c.StartNode(t, c.Nodes[i])
		s.join(t, nil, i)
	}
	return s
}

// wantOnlyDaemons wants no process of any job to be left on the nodes.
func wantOnlyDaemons(t *testing.T, c *slurmtest.Cluster, since time.Time) {
	t.Helper()
	wantNone(t, since, func() (pids []int) {
		for _, p := range c.Processes() {
			pids = append(pids, p.PID)
		}
		return pids
	})
}

// Ranks are in the order of the nodelist, and a task is a slot.
func TestSlurmsTasksAreSlots(t *testing.T) {
	t.Parallel()
	needProc(t)
	c := slurmtest.Start(t, slurmtest.Config{Env: []string{"HOME=" + t.TempDir()}})
	_, env := allocate(t, c, "n3,n1,n2", "--ntasks=5")
	env = append(env, "SLURM_TASKS_PER_NODE=2(x2),1")
	l := startWith(t, launchProgram, t.TempDir(), env, "-s", "1", "--", self(t))
	if code := l.exit(t); code != 0 {
		t.Fatalf("exit code %d, want 0", code)
	}
	for rank, node := range []string{"n3", "n3", "n1", "n1", "n2"} {
		if want := fmt.Sprintf("worker %d  | rank %[1]d of 5 has its sums at %s ", rank, node); !strings.Contains(l.stdout.String(), want) {
			t.Errorf("stdout has no %q", want)
		}
	}
	for _, unwanted := range []string{"srun: ", "WARN", "ERROR"} {
		if strings.Contains(l.stderr.String(), unwanted) {
			t.Errorf("stderr has %q", unwanted)
		}
	}
	wantOnlyDaemons(t, c, time.Now())
}

// The agents need srun no more once they run. It is the step of a node that dies with it.
func TestAJobOutlivesItsSrun(t *testing.T) {
	t.Parallel()
	needProc(t)
	s := slurmSite(t, 2)
	j := s.elastic(t, 2)
	srun := processesNamed(t, "srun", j.Process.Pid)
	if len(srun) == 0 {
		t.Fatal("launch runs no srun")
	}
	// An srun has a child that cancels the step when its parent dies, so children are killed
	// first.
	for _, pid := range slices.Backward(srun) {
		kill(t, pid)
	}
	j.await(t, "srun has ended")
	j.finish(t)
}

// The agent of a node that lives is started again, and with it the node's worker; also that of a
// node that was removed and is added again.
func TestANodeWhoseAgentWasKilledComesAgain(t *testing.T) {
	t.Parallel()
	needProc(t)
	s := slurmSite(t, 2)
	j := s.elastic(t, 2)
	kill(t, parentOf(t, j.worker(t, 1)))
	j.await(t, "worker 0  | goes on as 0 of 1")
	j.await(t, "| begins as 1 of 2, joined true")
	j.wantCtl(t, 0, ` REMOVED\n$`, "remove", "--wait", "n2")
	j.wantCtl(t, 0, ` ADDED\n$`, "add", "--wait", "n2")
	j.finish(t)

	// The line comes once or twice: the agent of a removed host may not have ended yet.
	if !strings.Contains(j.stderr.String(), "node n2: starting its agent again") {
		t.Error("nothing says that the agent was started again")
	}
}

// processesNamed are the processes below one of that name, it and its children.
func processesNamed(t *testing.T, name string, above int) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	family := []int{above}
	for range 3 { // generations
		for _, e := range entries {
			var pid int
			if _, err := fmt.Sscan(e.Name(), &pid); err != nil || slices.Contains(family, pid) {
				continue
			}
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			head, rest, _ := strings.Cut(string(b), ") ")
			var state string
			var parent int
			if n, _ := fmt.Sscan(rest, &state, &parent); n == 2 && slices.Contains(family, parent) {
				family = append(family, pid)
				if strings.HasSuffix(head, "("+name) {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids
}

// What is wrong is said before anything starts.
func TestSlurmsErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	c := slurmtest.Start(t, slurmtest.Config{Nodes: 2, Env: []string{"HOME=" + t.TempDir()}})
	_, good := allocate(t, c, "n1,n2")
	plain := append(c.Env(), "SLURM_JOB_ID=")
	for _, tc := range []struct {
		name string
		env  []string
		args []string
		code int
		want string
	}{
		{"no allocation", plain, []string{"--launcher", "slurm", "-n", "1"}, 2,
			"launch: --launcher slurm: not inside a Slurm allocation: SLURM_JOB_ID is not set; run launch in a batch script (launch slurm script writes one) or within salloc"},
		{"nodelist", append(good[:len(good):len(good)], "SLURM_JOB_NODELIST=n[1-"), []string{"-n", "1"}, 2,
			`launch: --launcher slurm: SLURM_JOB_NODELIST: "n[1-" has a syntax error at character 5: got the end in a bracket, want a number`},
		{"too many workers", append(good[:len(good):len(good)], "SLURM_TASKS_PER_NODE=2(x2)"), []string{"-n", "5"}, 2,
			"has 4 tasks; lower -n, or ask Slurm for more (--ntasks, --ntasks-per-node)"},
		{"a hosts file", good, []string{"-n", "1", "--launcher", "slurm", "-H", "hosts"}, 2,
			"launch: --launcher slurm runs on the nodes of the allocation; leave out -H hosts, or use --launcher ssh"},
		{"no srun", append(good[:len(good):len(good)], "PATH=/nowhere"), []string{"-n", "1"}, 1,
			"launch: there is no srun on the PATH: run launch where Slurm's commands are, or reach the hosts in another way (-H FILE)"},
		{"another job", append(good[:len(good):len(good)], "SLURM_JOB_ID=4711"), []string{"-n", "1"}, 1,
			"srun: Unable to confirm allocation for job 4711: Invalid job id specified; the allocation has ended, or SLURM_JOB_ID is of another cluster: squeue --me"},
		{"a node that is not ours", append(good[:len(good):len(good)], "SLURM_JOB_NODELIST=n1,n9"), []string{"-n", "1"}, 1,
			"srun: Unable to create step for job"},
	} {
		l := startWith(t, launchProgram, t.TempDir(), tc.env, append(tc.args, "true")...)
		if code := l.exit(t); code != tc.code || !strings.Contains(l.stderr.String(), tc.want) {
			t.Errorf("%s: exit code %d and %q, want %d and %q", tc.name, code, l.stderr, tc.code, tc.want)
		}
	}
	c.StopMunge(t)
	l := startWith(t, launchProgram, t.TempDir(), good, "-n", "1", "true")
	if code, want := l.exit(t), "(Did you start munged?); munged does not run on this machine: systemctl status munge"; code != 1 || !strings.Contains(l.stderr.String(), want) {
		t.Errorf("munge down: exit code %d and %q, want 1 and %q", code, l.stderr, want)
	}
	c.StartMunge(t)
}

// What is wrong with a batch job is said when its script is written, not when it runs.
func TestBadBatchScriptsAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"script -- p":                                    "slurm: the number of nodes is missing; give --nodes NUMBER",
		"script --nodes 0 -- p":                          "slurm: --nodes is 0, want 1 to 65536",
		"script --nodes 2":                               "no command for the workers",
		"script --nodes 2 --time 4x -- p":                `slurm: --time "4x" is not a time limit`,
		"script --nodes 2 --time 3m -- p":                "slurm script: --time 3m and --notice 2m0s: want more than 3m0s of time",
		"script --nodes 2 -n 8 --ntasks-per-node 2 -- p": "-n is 8, and the allocation of job 1 has 4 tasks",
		"script --nodes 2 --partition a;b -- p":          `slurm script: --partition "a;b": want letters`,
		"script --nodes 2 --on-worker-loss never -- p":   `--on-worker-loss "never" is unknown`,
		"script --nodes 2 -H hosts -- p":                 "--launcher slurm runs on the nodes of the allocation; leave out -H hosts",
		"join":                                           `slurm join: got the job "", want its number`,
		"join n1 --nodes 1":                              `slurm join: got the job "n1", want its number`,
		"join 12 13 --nodes 1":                           `slurm join: got argument "13", want one job and flags`,
		"requeue":                                        `slurm: there is no "requeue"; there are script and join`,
	} {
		var stdout, stderr bytes.Buffer
		if code := slurm.Run(strings.Fields(args), &stdout, &stderr); code != command.ExitUsage || !strings.Contains(stderr.String(), want) || stdout.Len() > 0 {
			t.Errorf("launch slurm %s: exit code %d, %q; want %d and %q", args, code, stderr.String(), command.ExitUsage, want)
		}
	}
}

// On many clusters a worker of a script that does not say otherwise has one processor.
func TestBatchScriptsWithoutProcessorsAreWarnedOf(t *testing.T) {
	const want = "without --cpus-per-task a worker gets one processor on many clusters; give --cpus-per-task NUMBER, or --sbatch --exclusive for whole nodes"
	for args, warned := range map[string]bool{
		"script --nodes 2 -- p":                      true,
		"script --nodes 2 --sbatch --hold -- p":      true,
		"script --nodes 2 --cpus-per-task 8 -- p":    false,
		"script --nodes 2 --sbatch --exclusive -- p": false,
		"script --nodes 2 --sbatch -c8 -- p":         false,
	} {
		var stdout, stderr bytes.Buffer
		if code := slurm.Run(strings.Fields(args), &stdout, &stderr); code != 0 || strings.Contains(stderr.String(), want) != warned || stdout.Len() == 0 {
			t.Errorf("launch slurm %s: exit code %d, %q; want 0 and a warning: %t", args, code, stderr.String(), warned)
		}
	}
}
