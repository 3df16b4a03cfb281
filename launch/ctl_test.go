package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/ctl"
)

func runCtl(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = ctl.Run(args, &out, &err)
	return code, out.String(), err.String()
}

// ctl runs `launch ctl` as the launcher's user.
func (l *launcher) ctl(t *testing.T, args ...string) (code int, output string) {
	t.Helper()
	cmd := exec.Command(launchProgram, append([]string{"ctl"}, args...)...)
	cmd.Dir, cmd.Env = l.Dir, append(os.Environ(), "XDG_RUNTIME_DIR="+l.records)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func (l *launcher) wantCtl(t *testing.T, code int, want string, args ...string) string {
	t.Helper()
	got, out := l.ctl(t, args...)
	if got != code || !regexp.MustCompile(want).MatchString(out) {
		t.Errorf("launch ctl %q: exit code %d, want %d, and output like %s, got\n%s", args, got, code, want, out)
	}
	return out
}

func (j *elasticJob) wantHosts(t *testing.T, want string) {
	t.Helper()
	if b, err := os.ReadFile(filepath.Join(j.dir, "host_worker")); err != nil || string(b) != want {
		t.Errorf("host_worker has %q, %v, want %q", b, err, want)
	}
}

func TestCtlChangesARunningJob(t *testing.T) {
	t.Parallel()
	j := startElastic(t)
	job := j.job(t)
	j.wantCtl(t, 0, `^host 127\.0\.0\.2 ADDED\n$`, "add", "--wait", "127.0.0.2", "slots=2", "gpus=0", "cpus=1")
	j.wantHosts(t, "localhost slots=2\n127.0.0.2 slots=2 gpus=0 cpus=1\n")
	j.await(t, "worker 0  | goes on as 0 of 4")
	j.wantCtl(t, 1, "host 127.0.0.2 is in the job already", "add", "127.0.0.2")
	j.wantCtl(t, 1, "host 127.0.0.9 has no worker", "remove", "127.0.0.9")
	j.wantCtl(t, 1, "host 10.9.9.9 FAILED: host 10.9.9.9 is not this machine", "add", "--wait", "10.9.9.9")
	j.wantCtl(t, 1, "host 10.9.9.8 FAILED", "add", "--wait", "10.9.9.8")
	j.wantCtl(t, 0, `^host 10\.9\.9\.8 was removed; it had no worker in the job\. See launch ctl status\.\n$`, "remove", "10.9.9.8")
	j.await(t, "host 10.9.9.8 was removed; it had no worker in the job")
	out := j.wantCtl(t, 0, `(?m)^job `+job+`: running, 4 workers, generation \d+, since \S+ in .*: .*launch\.test$`, "status", "--job", job[:5])
	for _, want := range []string{
		`(?m)^role +rank +host +pid +state +epoch +step +examples/s +loss +heartbeat$`, `(?m)^server +0 +localhost +\d+ +in the job +\S.* ago$`,
		`(?m)^worker +3 +127\.0\.0\.2 +\d+ +in the job +0 +\d+ +\S.* ago$`, `(?m)^localhost +ADDED`, `(?m)^127\.0\.0\.2 +ADDED`,
		`(?m)^10\.9\.9\.9 +FAILED +host 10\.9\.9\.9 is not this machine`, `(?m)^10\.9\.9\.8 +REMOVED`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("the status has no line like %s:\n%s", want, out)
		}
	}
	_, text := j.ctl(t, "status", "--json")
	var s control.Status
	if err := json.Unmarshal([]byte(text), &s); err != nil || s.Job != job || len(s.Nodes) != 5 || len(s.Hosts) != 4 || s.Hosts[1].Status != "FAILED" {
		t.Errorf("the status as JSON: %v\n%s", err, text)
	}
	j.wantCtl(t, 0, `^host 127\.0\.0\.2 REMOVED\n$`, "remove", "--wait", "127.0.0.2")
	j.await(t, "worker 3  | removed from the job")
	j.wantCtl(t, 0, "No one is waiting", "why")
	j.wantHosts(t, "localhost slots=2\n10.9.9.9\n")
	elsewhere := *j.launcher
	elsewhere.Cmd = &exec.Cmd{Dir: t.TempDir()}
	elsewhere.wantCtl(t, 0, "^job "+job+": running, 2 workers", "status")
	for _, args := range []string{"add 127.0.0.2", "remove localhost", "add-server", "remove-server 0"} {
		elsewhere.wantCtl(t, 1, `^launch: no job was started in this folder; to change a job of another folder give its ID:\n  --job `+job+` `, strings.Fields(args)...)
	}
	elsewhere.wantCtl(t, 1, "host 127.0.0.9 has no worker", "remove", "--job", job[:5], "127.0.0.9")
	j.finish(t)
	j.wantLog(t, "0 ADDED 127.0.0.2 #\n1 REMOVED 127.0.0.2 #\n")
	j.wantCtl(t, 1, "no job of yours runs on this machine", "status")
}

// Who is waited for has a name before anybody has lost patience.
func TestCtlWhyNamesWhoIsWaitedFor(t *testing.T) {
	t.Parallel()
	needProc(t)
	l := startLauncher(t, t.TempDir(), "-n", "2", "-s", "1", "if [ $PARAGON_RANK = 0 ]; then exec "+self(t)+"; fi; sleep 1000")
	l.job(t)
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if _, out := l.ctl(t, "why"); regexp.MustCompile(`(?m)^the job +\S+ +start +worker 1 on localhost`).MatchString(out) {
			break
		} else if time.Since(begin) > patience {
			t.Fatalf("launch ctl why says\n%s", out)
		}
	}
	l.wantCtl(t, 0, "(?m)^waiting for worker 1 on localhost", "status")
	l.wantCtl(t, 1, "was not started with --elastic-training-enabled", "add", "d3")
}

func TestCtlSecretStaysOffTheCommandLine(t *testing.T) {
	takesLong(t)
	t.Parallel()
	j := startElastic(t)
	files, err := filepath.Glob(filepath.Join(j.records, "paragon", "jobs", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("records %q, %v, want one", files, err)
	}
	info, err := os.Stat(files[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s has mode %v, %v, want 0600", files[0], info.Mode(), err)
	}
	all, err := record.All(filepath.Dir(files[0]))
	if err != nil || len(all) != 1 {
		t.Fatalf("All: %v, %v", all, err)
	}
	wrong := strings.Repeat("0", 64)
	os.Remove(files[0])
	all[0].Credentials = []string{"PARAGON_SECRET=" + wrong}
	f, err := record.Write(filepath.Dir(files[0]), all[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Remove()
	if code, out := j.ctl(t, "remove", "localhost"); code != 1 || strings.Contains(out, wrong) {
		t.Errorf("launch ctl with a wrong secret: exit code %d, want 1, and no secret in\n%s", code, out)
	}
	j.finish(t)
}

func TestCtlCommandLinesSayWhatToDo(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"add", command.ExitUsage, "no host is given; write launch ctl add HOST"},
		{"remove a b", command.ExitUsage, `got ["a" "b"], want one host`},
		{"add d3 slots=0", command.ExitUsage, "d3: got slots=0, want a number of workers from 1 to 5000"},
		{"add a;b", command.ExitUsage, `"a;b" is not a host name`},
		{"add --slots 2 d3", command.ExitUsage, "there is no flag -slots"},
		{"--job 3f2a status", command.ExitUsage, "--job goes after the command, as in launch ctl status --job"},
		{"trace --seconds five", command.ExitUsage, `invalid value "five" for flag -seconds: want a number`},
		{"status x", command.ExitUsage, `ctl status: got "x", want flags only`},
		{"stat", command.ExitUsage, `there is no "stat"; there are status, why, page, trace, add, remove, scale, stop, add-server, remove-server, plan and export`},
		{"add d3", 1, "no job of yours runs on this machine; run this on the same machine and as the same user as launch"},
	} {
		code, out, stderr := runCtl(strings.Fields(tc.args)...)
		if code != tc.code || !strings.Contains(stderr, tc.want) {
			t.Errorf("launch ctl %s: exit code %d, %s%s, want %d with %q", tc.args, code, out, stderr, tc.code, tc.want)
		}
	}
	_, out, _ := runCtl("--help")
	for _, want := range []string{"status", "why", "add", "remove", "add-server", "remove-server", "plan"} {
		if !strings.Contains(out, want) {
			t.Errorf("launch ctl --help has no %s:\n%s", want, out)
		}
	}
	for _, command := range []string{"add", "remove", "status", "why"} {
		if _, out, _ := runCtl(command, "--help"); !strings.Contains(out, "launch ctl "+command) || !strings.Contains(out, "--job ID") {
			t.Errorf("launch ctl %s --help has no example:\n%s", command, out)
		}
	}
}
