package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// secretsOf are the secrets in the environment of a job's processes.
func secretsOf(job string) (secrets []string) {
	for _, pid := range processesOf(job, "") {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		for v := range strings.SplitSeq(string(b), "\x00") {
			name, value, _ := strings.Cut(v, "=")
			if name == "PARAGON_SECRET" && !slices.Contains(secrets, value) {
				secrets = append(secrets, value)
			}
			if name == "PARAGON_IDENTITY" && len(value) > 40 {
				secrets = append(secrets, value[len(value)-40:]) // of the key
			}
		}
	}
	return secrets
}

// wantNoSecret wants no file below the folders to hold a secret. Files may go meanwhile.
func wantNoSecret(t *testing.T, secrets []string, dirs ...string) {
	t.Helper()
	for _, file := range filesBelow(t, dirs...) {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for _, secret := range append(secrets, "PARAGON_SECRET", "PARAGON_IDENTITY") {
			if strings.Contains(string(b), secret) && !strings.Contains(file, "/.cache/paragon/launch-") { // the program knows the names
				t.Errorf("%s has a secret of a launcher that was killed:\n%s", file, b)
				break
			}
		}
	}
}

func filesBelow(t *testing.T, dirs ...string) (files []string) {
	t.Helper()
	for _, dir := range dirs {
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				files = append(files, path)
			}
			return nil
		})
	}
	return files
}

// wantEmpty waits until a folder has nothing but the folders of the records.
func wantEmpty(t *testing.T, what string, dirs ...string) {
	t.Helper()
	left := func() (all []string) {
		for _, dir := range dirs {
			entries, _ := filepath.Glob(filepath.Join(dir, "*"))
			all = append(all, slices.DeleteFunc(entries, func(path string) bool {
				return filepath.Base(path) == "paragon" && len(filesBelow(t, path)) == 0
			})...)
		}
		return all
	}
	deadline := time.Now().Add(patience)
	for len(left()) > 0 {
		if time.Now().After(deadline) {
			t.Errorf("%s: there are still %q", what, left())
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// At no moment of its life does a launcher that is killed leave a secret behind. What else it
// leaves goes with its agent, and what an agent does not remove (it was not there yet, or killed as
// well) with the next job's start.
func TestKilledLauncherLeavesNoSecretAndNoFile(t *testing.T) {
	t.Parallel()
	needProc(t)
	const script = `trap 'echo saves; sleep 1000' TERM; echo ready; while :; do sleep 0.05; done`
	for _, tc := range []struct {
		name  string
		until func(t *testing.T, l *launcher, tmp string)
		agent bool // is killed, too

		// early says that no process of the job need be there.
		early bool
	}{
		{name: "its folder was made", early: true, until: func(t *testing.T, l *launcher, tmp string) { awaitFile(t, filepath.Join(tmp, "*launch-*")) }},
		{name: "its record is written", early: true, until: func(t *testing.T, l *launcher, tmp string) {
			awaitFile(t, filepath.Join(l.records, "paragon", "jobs", "*"))
		}},
		{name: "processes start", until: func(t *testing.T, l *launcher, tmp string) { l.job(t) }},
		{name: "the job runs", until: func(t *testing.T, l *launcher, tmp string) { l.await(t, "worker 0  | ready") }},
		{name: "the job is stopped", until: func(t *testing.T, l *launcher, tmp string) {
			l.await(t, "worker 0  | ready")
			l.Process.Signal(syscall.SIGTERM)
			l.await(t, "worker 0  | saves")
		}},
		{name: "its agent is killed at the same time", agent: true, until: func(t *testing.T, l *launcher, tmp string) { l.await(t, "worker 0  | ready") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tmp := t.TempDir()
			env := []string{"TMPDIR=" + tmp}
			l := startWith(t, launchProgram, tmp, env, "-n", "1", "-s", "1", "--tls", "on", "--on-worker-loss", "shrink", "--stop-timeout", "1000s", script)
			tc.until(t, l, tmp)
			var secrets []string
			if !tc.early {
				if secrets = secretsOf(l.job(t)); len(secrets) < 2 {
					t.Fatalf("the job's processes have %d secrets, want 2 at least", len(secrets))
				}
			}
			if tc.agent {
				l.Process.Signal(syscall.SIGSTOP) // it must not clean up
				kill(t, childOf(t, l.Process.Pid))
			}
			at := time.Now()
			l.Process.Kill()
			<-l.done
			wantNoSecret(t, secrets, tmp, l.records)
			if !tc.early {
				wantNoProcess(t, l.job(t), at)
				wantNoSecret(t, secrets, tmp, l.records)
			}
			if !tc.early && !tc.agent {
				wantEmpty(t, "after the end of its agent", tmp, l.records)
			}
			next := startWith(t, launchProgram, tmp, append(env, "XDG_RUNTIME_DIR="+l.records), "-n", "1", "-s", "1", "true")
			next.exit(t)
			wantEmpty(t, "after the next job", tmp, l.records)
		})
	}
}

// A search that was killed leaves no socket, and the next one removes its folder. The job of its
// trial ends cleanly.
func TestKilledSearchLeavesNoSecretAndNoFile(t *testing.T) {
	t.Parallel()
	needProc(t)
	for name, resources := range map[string]string{"alone": "", "with a server": "resources: {slots: 1, servers: 1}\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tmp, err := os.MkdirTemp("", "k") // a socket's path is short
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(tmp) })
			dir := counting(t, "0.1", resources)
			l := startWith(t, launchProgram, dir, []string{"TMPDIR=" + tmp}, "tune", "--verbose", "study.yaml")
			l.await(t, "hello from 1")
			l.Process.Kill()
			<-l.done
			wantNoSecret(t, nil, tmp, l.records)
			next := startWith(t, launchProgram, dir, []string{"TMPDIR=" + tmp, "XDG_RUNTIME_DIR=" + l.records}, "tune", "--resume", "study.yaml")
			if code := next.exit(t); code != 0 {
				t.Errorf("the search that goes on: exit code %d, want 0", code)
			}
			wantEmpty(t, "after the search that goes on", tmp, l.records)
		})
	}
}

// childOf is the only child of a process.
func childOf(t *testing.T, parent int) int {
	t.Helper()
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		b, _ := os.ReadFile(path)
		var state string
		var pid, of int
		_, rest, _ := strings.Cut(string(b), ") ") // the name may hold spaces
		if fmt.Sscan(string(b), &pid); pid > 1 {
			if n, _ := fmt.Sscan(rest, &state, &of); n == 2 && of == parent {
				return pid
			}
		}
	}
	t.Fatalf("process %d has no child", parent)
	return 0
}

// awaitFile waits until a pattern has a file.
func awaitFile(t *testing.T, pattern string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		if all, _ := filepath.Glob(pattern); len(all) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("there is no %s after %s", pattern, patience)
		}
		time.Sleep(time.Millisecond)
	}
}
