package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
)

// elsewhere runs launch as another machine would: it finds no record of a job, and has these
// variables.
func elsewhere(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(launchProgram, args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = t.TempDir(), append(append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir()), env...), &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func wantElsewhere(t *testing.T, code int, want string, env []string, args ...string) (stdout string) {
	t.Helper()
	got, stdout, stderr := elsewhere(t, env, args...)
	if got != code || !regexp.MustCompile(want).MatchString(stdout+stderr) {
		t.Errorf("launch %q: exit code %d, want %d, and output like %s, got\n%s%s", args, got, code, want, stdout, stderr)
	}
	return stdout
}

// newSecretFile writes a secret.
func newSecretFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if _, _, err := dialin.ReadOrMakeSecret(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every command of launch ctl works through the launcher's port alone, with the secret.
func TestCtlAsksAJobOfAnotherMachine(t *testing.T) {
	takesLong(t)
	t.Parallel()
	secret, addresses := newSecretFile(t), filepath.Join(t.TempDir(), "addresses")
	j := startElastic(t, "--listen", "127.0.0.1:0", "--secret-file", secret, "--address-file", addresses)
	j.await(t, "launch ctl and launch top on other machines: --join 127.0.0.1:")
	text, err := os.ReadFile(addresses)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.TrimSpace(string(text))
	env := []string{"PARAGON_CONTROL_ADDRESS=" + at, "PARAGON_SECRET_FILE=" + secret}
	id := j.job(t)

	out := wantElsewhere(t, 0, `(?s)^job `+id+`: running.*worker.*1 +localhost`, nil, "ctl", "--join", at, "--secret-file", secret, "status")
	if !strings.Contains(out, j.dir) {
		t.Errorf("status names no folder %s:\n%s", j.dir, out)
	}
	wantElsewhere(t, 0, `^job `+id, nil, "ctl", "status", "--join", "@"+addresses, "--secret-file", secret, "--job", id[:3])
	wantElsewhere(t, 0, ``, env, "ctl", "why")
	wantElsewhere(t, 0, `host 127.0.0.2 ADDED`, env, "ctl", "add", "--wait", "127.0.0.2")
	j.await(t, "goes on as 0 of 3")
	wantElsewhere(t, 0, `host 127.0.0.2 REMOVED`, env, "ctl", "remove", "--wait", "127.0.0.2")
	wantElsewhere(t, 1, `servers can be added only where shards have backups`, env, "ctl", "add-server")
	trace := filepath.Join(t.TempDir(), "t.json.gz")
	wantElsewhere(t, 0, trace+`: .*pushes with their rounds`, env, "ctl", "trace", "--steps", "3", "-o", trace)
	wantElsewhere(t, 0, `^http://127\.0\.0\.1:\d+/\?token=`, env, "ctl", "page")
	var document any
	if err := json.Unmarshal([]byte(wantElsewhere(t, 0, `"job": "`+id, env, "top", "--json")), &document); err != nil {
		t.Error(err)
	}
	if _, env, _ := elsewhere(t, env, "ctl", "status", "--json"); strings.Contains(env, "PARAGON_SECRET") {
		t.Error("a secret of the job has left its launcher")
	}

	wantElsewhere(t, 1, `launch: launcher at \S+: the launcher says: that launcher runs job `+id+`, and none whose ID begins with "x"`, env, "ctl", "status", "--job", "x")
	wantElsewhere(t, 1, `launch: launcher at \S+: \S+ TLS: identity: the other end has another secret; give the file of its --secret-file\n`, nil, "ctl", "--join", at, "--secret-file", newSecretFile(t), "status")
	wantElsewhere(t, 2, `--join needs the launcher's secret: give --secret-file FILE, or set PARAGON_SECRET_FILE`, nil, "ctl", "--join", at, "status")
	wantElsewhere(t, 2, `--join: "head" is not an address, want host:port`, nil, "ctl", "--join", "head", "--secret-file", secret, "status")
	wantElsewhere(t, 1, `no job of yours runs on this machine`, env, "ctl", "--join", "", "status")
	wantElsewhere(t, 77, `the launcher was started with --launcher local and accepts no agents`, nil, "agent", "--join", at, "--secret-file", secret)

	j.finish(t)
	wantElsewhere(t, 1, `launch: launcher at \S+: .*connection refused; the job is over, or its launcher was started without --listen`, env, "ctl", "status")
	if _, err := os.Stat(addresses); !os.IsNotExist(err) {
		t.Errorf("the file of addresses: %v, want that it is gone", err)
	}
}

// While a launcher waits for its agents there is no job; then there is one, and launch ctl reaches
// it at the port of the agents.
func TestCtlAsksALauncherOfAgents(t *testing.T) {
	t.Parallel()
	secret := newSecretFile(t)
	l := startLauncher(t, t.TempDir(), "-n", "1", "--launcher", "agents", "--listen", "127.0.0.1:0", "--secret-file", secret, "sleep 60")
	l.await(t, "agents join with: ")
	at := regexp.MustCompile(`--join (127\.0\.0\.1:\d+)`).FindStringSubmatch(l.stderr.String())[1]
	wantElsewhere(t, 1, `the launcher says: no job runs there yet: the launcher waits for hosts`, nil, "ctl", "--join", at, "--secret-file", secret, "status")
	agent := startLauncher(t, t.TempDir(), "agent", "--join", at, "--secret-file", secret, "--name", "n1")
	wantElsewhere(t, 0, `^job `+l.job(t)+`: forming`, nil, "ctl", "--join", at, "--secret-file", secret, "status")
	l.Process.Signal(os.Interrupt)
	if code := l.exit(t); code != 130 {
		t.Errorf("launch: exit code %d, want 130", code)
	}
	if code := agent.exit(t); code != 0 {
		t.Errorf("agent: exit code %d, want 0", code)
	}
}

// What listens at an address may be anything.
func TestCtlTellsWhatIsNoLauncher(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("220 mail\r\n"))
			c.Close()
		}
	}()
	wantElsewhere(t, 1, `launch: launcher at `+ln.Addr().String()+`: .*; is it the address of a launcher \(launch --listen\)`, nil, "ctl", "--join", ln.Addr().String(), "--secret-file", newSecretFile(t), "status")
}
