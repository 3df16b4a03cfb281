package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/internal/testing/mpitest"
)

// mpirun starts the agents, and the loss of any of them, or of a host with mpirun's daemon, does
// not end the job: mpirun goes on, and so do the others. Nothing is left at the end, not even an
// mpirun that waits for a host it has lost.
func TestJobOfMPIOutlivesItsRanks(t *testing.T) {
	needProc(t)
	t.Parallel()
	h := mpitest.Start(t, 4)
	secret := filepath.Join(t.TempDir(), "secret")
	text := dialin.NewSecret().Encode()
	if err := os.WriteFile(secret, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := &elasticJob{dir: t.TempDir(), stop: filepath.Join(t.TempDir(), "stop")}
	j.launcher = startWith(t, launchProgram, j.dir, h.Env(), "--launcher", "mpi", "--mpirun", h.Mpirun(4), "--listen", "127.0.0.1:0", "--secret-file", secret, "--host-timeout", "2s", "--rejoin", "0",
		"-n", "4", "-s", "1", "--elastic-training-enabled", "--env", stopFile+"="+j.stop, "--", self(t))
	for i := range 4 {
		j.await(t, fmt.Sprintf("begins as %d of 4, joined false", i))
	}
	wantNoSecretInArguments(t, []string{text})
	for i, name := range h.Names { // ranks are in mpirun's order
		if want := fmt.Sprintf("worker     %d     %s ", i, name); !strings.Contains(j.stderr.String(), want) {
			t.Errorf("no line %q", want)
		}
	}

	if err := syscall.Kill(parentOf(t, j.worker(t, 3)), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	j.await(t, "goes on as 0 of 3")
	if err := syscall.Kill(parentOf(t, j.worker(t, 2)), syscall.SIGTERM); err != nil { // exit code 143
		t.Fatal(err)
	}
	j.await(t, "goes on as 0 of 2")
	h.Kill(t, "n2")
	j.await(t, "goes on as 0 of 1")
	j.finish(t)
	wantNone(t, time.Now(), h.Processes)
}

// A launcher that is killed leaves nothing: the agents end, and with them mpirun.
func TestKilledLauncherOfMPILeavesNoProcess(t *testing.T) {
	needProc(t)
	t.Parallel()
	h := mpitest.Start(t, 2)
	l := startWith(t, launchProgram, t.TempDir(), h.Env(), "--launcher", "mpi", "--mpirun", h.Mpirun(2), "--listen", "127.0.0.1:0", "--host-timeout", "2s", "-n", "2", "-s", "1", "echo ready; exec sleep 1000")
	l.await(t, "worker 0  | ready")
	l.await(t, "worker 1  | ready")
	job, at := l.job(t), time.Now()
	l.Process.Kill()
	wantNoProcess(t, job, at)
	wantNone(t, time.Now(), h.Processes)
}

func TestMPIChecksItsHostsAndSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	h := mpitest.Start(t, 2)
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte("n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		flags []string
		code  int
		want  string
	}{
		{[]string{"--mpirun", h.Mpirun(2), "--check"}, 0, "n2    "},
		{[]string{"--mpirun", h.Mpirun(2) + " -np 3"}, 1, "Your job has requested more processes than the ppr"},
		{[]string{"--mpirun", "mpirun --nope"}, 1, `unknown option "--nope"`},
		{[]string{"--mpirun", "mpirun-nope"}, 1, "there is no mpirun-nope on the PATH"},
		{[]string{"--mpirun", "echo"}, 1, "echo is not Open MPI's"},
		{[]string{"--mpirun", "'"}, 2, "is not a command"},
		{[]string{"-H", file}, 2, "leave out -H"},
		{[]string{"--agents", "2"}, 2, "--agents is for --launcher agents"},
		{[]string{"--sync-dst-dir", "/tmp"}, 2, "--sync-dst-dir copies over ssh"},
	} {
		l := startWith(t, launchProgram, t.TempDir(), h.Env(), append(append([]string{"--launcher", "mpi", "-n", "2"}, tc.flags...), "--", "true")...)
		if code := l.exit(t); code != tc.code || !strings.Contains(l.stdout.String()+l.stderr.String(), tc.want) {
			t.Errorf("%q: code %d, %s%s; want code %d and %q", tc.flags, code, l.stdout, l.stderr, tc.code, tc.want)
		}
	}
	l := startLauncher(t, t.TempDir(), "-n", "1", "--mpirun", "mpirun", "--", "true")
	if code := l.exit(t); code != 2 || !strings.Contains(l.stderr.String(), "--mpirun is for --launcher mpi") {
		t.Errorf("--mpirun alone: code %d, %s", code, l.stderr)
	}
}

// mpiSite has hosts on which mpirun starts the agents.
func mpiSite(t *testing.T, hosts int) *site {
	h := mpitest.Start(t, hosts)
	for _, v := range h.Env() {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	files := t.TempDir()
	secret, addresses := filepath.Join(files, "secret"), filepath.Join(files, "addresses")
	s := &site{dir: t.TempDir(), hosts: h.Names}
	s.flags = func(first int) []string {
		return []string{"--launcher", "mpi", "--mpirun", h.Mpirun(first), "--listen", "127.0.0.1:0", "--secret-file", secret, "--address-file", addresses}
	}
	s.join = func(t *testing.T, _ *elasticJob, i int) { // as from another mpirun
		startCommand(t, nil, exec.Command(launchProgram, "agent", "--join", "@"+addresses, "--secret-file", secret, "--name", h.Names[i]), t.TempDir(), nil)
	}
	s.lose = func(t *testing.T, i int) { h.Kill(t, h.Names[i]) }
	return s
}
