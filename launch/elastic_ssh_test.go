package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
)

// startElasticOver starts a job with a worker on each of the first of some hosts that ssh reaches.
func startElasticOver(t *testing.T, workers, hosts int, flags ...string) (*elasticJob, *sshtest.Server) {
	t.Helper()
	needProc(t)
	s := sshtest.Start(t, hosts)
	first := ""
	for i := range workers {
		first += (*elasticJob)(nil).host(s, i) + "\n"
	}
	return startElasticHosts(t, s, first, workers, flags...), s
}

// startElasticHosts starts a job on the hosts of a hosts file that ssh reaches.
func startElasticHosts(t *testing.T, s *sshtest.Server, file string, workers int, flags ...string) *elasticJob {
	t.Helper()
	j := &elasticJob{dir: t.TempDir(), stop: filepath.Join(t.TempDir(), "stop")}
	if err := os.WriteFile(filepath.Join(j.dir, "hosts"), []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-H", "hosts", "--ssh-command", strings.Join(s.Client, " "), "-n", fmt.Sprint(workers), "-s", "1", "--elastic-training-enabled",
		"--env", stopFile + "=" + j.stop}, flags...)
	j.launcher = startLauncher(t, j.dir, append(args, "--", self(t))...)
	for i := range workers {
		j.await(t, fmt.Sprintf("begins as %d of %d, joined false", i, workers))
	}
	return j
}

// A host that is added gets the job's folder, is prepared, and only then has a worker.
func TestHostIsAddedBySSH(t *testing.T) {
	takesLong(t)
	t.Parallel()
	sshtest.Program(t, "rsync", "rsync")
	dst := filepath.Join(t.TempDir(), "dst")
	j, s := startElasticOver(t, 1, 3, "--sync-dst-dir", dst, "--prepare-data", "test -e hosts && echo prepared $DMLC_NODE_HOST in $PWD")
	first := j.host(s, 0)
	j.edit(t, first+"\n"+j.host(s, 1)+" slots=2\n")
	j.await(t, "goes on as 0 of 3")
	j.edit(t, first+"\n"+j.host(s, 2)+"\n") // replaced
	j.await(t, j.host(s, 1)+" has left the job")
	j.await(t, j.host(s, 2)+" joined the job")
	j.finish(t)
	j.wantOutput(t, fmt.Sprintf("Launching new worker jobs: %s %s -p %d\n", strings.Join(s.Client, " "), s.Addresses[1], s.Port), fmt.Sprintf("| prepared %s in %s\n", j.host(s, 1), dst))
	if n := strings.Count(j.stdout.String(), "| removed from the job\n"); n != 2 {
		t.Errorf("%d workers were removed, want 2", n)
	}
	j.wantLog(t, strings.NewReplacer("<1>", j.host(s, 1), "<2>", j.host(s, 2)).Replace("0 ADDED <1> #\n1 REMOVED <1> #\n2 ADDED <2> #\n"))
}

func (j *elasticJob) host(s *sshtest.Server, i int) string {
	return fmt.Sprintf("%s:%d", s.Addresses[i], s.Port)
}

func TestHostThatCannotBeReachedDoesNotJoin(t *testing.T) {
	t.Parallel()
	j, s := startElasticOver(t, 1, 1)
	j.edit(t, j.host(s, 0)+"\nno-such-host.invalid\n")
	j.await(t, "host no-such-host.invalid could not join: host no-such-host.invalid: ")
	j.wantOutput(t, "is the name in the hosts file right?")
	j.wantCtl(t, 0, `(?m)^no-such-host\.invalid +FAILED +host no-such-host\.invalid: .*is the name in the hosts file right\?$`, "status")
	job, at := j.job(t), time.Now()
	j.Process.Kill()
	wantNoProcess(t, job, at)
}
