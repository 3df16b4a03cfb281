package slurm

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the files of testdata anew")

// golden wants a text to be a file of testdata, which bash and, where it is installed, shellcheck
// read without a complaint.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("got\n%s\nwant %s (-update writes it):\n%s", text, path, want)
	}
	for _, check := range [][]string{{"bash", "-n"}, {"shellcheck"}} {
		if _, err := exec.LookPath(check[0]); err != nil {
			continue
		}
		if out, err := exec.Command(check[0], append(check[1:], path)...).CombinedOutput(); err != nil {
			t.Errorf("%s %s: %v: %s", check[0], path, err, out)
		}
	}
}

func full() ScriptConfig {
	return ScriptConfig{
		Name: "cifar10", Nodes: 4, TasksPerNode: 2, CPUsPerTask: 8, GPUsPerNode: 2, Memory: "32G", Time: "08:00:00", Notice: 2 * time.Minute,
		Partition: "gpu", Account: "vision", QOS: "normal", Constraint: "[rack1|rack2]", Log: "%x-%j.out", More: []string{"--exclusive"},
		Launch: "/home/me/bin/launch", Flags: []string{"-s", "2", "--elastic-training-enabled", "--env", "NOTE=it's $HOME"},
		Command: []string{"./cifar10", "--name", "a b", "--checkpoint-dir", "ckpt", "", `\`, "é", "$(x)"},
	}
}

func TestScripts(t *testing.T) {
	least := ScriptConfig{Name: "p", Nodes: 1, TasksPerNode: 1, Notice: 90 * time.Second, Log: "%j.out", Launch: "launch", Command: []string{"p"}}
	for name, c := range map[string]ScriptConfig{"full.sh": full(), "least.sh": least} {
		text, err := Script(c)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, text)
	}
	c := full()
	c.Name = "join-1234"
	text, err := Join(JoinConfig{c, "/home/me/.paragon/slurm/1234"})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "join.sh", text)
}

// The words of flags and command reach launch as they were given.
func TestAScriptQuotesItsWords(t *testing.T) {
	c := full()
	dir := t.TempDir()
	c.Launch = filepath.Join(dir, "it's launch")
	if err := os.WriteFile(c.Launch, []byte("#!/bin/sh\nfor w; do printf '<%s>' \"$w\"; done; exit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := Script(c)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("bash", "-c", text).Output()
	want := "<--launcher><slurm>"
	for _, w := range append(append(c.Flags, "--"), c.Command...) {
		want += "<" + w + ">"
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 3 || string(out) != want {
		t.Errorf("got %s and %v, want %s and exit code 3", out, err, want)
	}
}

// Signals end bash's wait early; the exit code is launch's all the same. Code 85 requeues.
func TestAScriptPassesUSR1OnAndRequeues(t *testing.T) {
	dir := t.TempDir()
	c := full()
	c.Launch = filepath.Join(dir, "launch")
	for name, text := range map[string]string{
		"launch":   "trap 'echo stops; exit 85' USR1; trap 'echo term' TERM; echo ready $PARAGON_RESUME; sleep 0.1; kill -TERM $PPID; sleep 0.1; kill -USR1 $PPID; for i in $(seq 500); do sleep 0.01; done",
		"scontrol": "echo scontrol $*",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	text, err := Script(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-c", text)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "SLURM_JOB_ID=77", "SLURM_RESTART_COUNT=2")
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 85 || string(out) != "ready 1\nstops\nscontrol requeue 77\n" {
		t.Errorf("got %q and %v, want a requeue and exit code 85", out, err)
	}
}

func TestAScriptRefusesWhatSbatchWouldMisread(t *testing.T) {
	for want, change := range map[string]func(c *ScriptConfig){
		`--partition "a b"`:    func(c *ScriptConfig) { c.Partition = "a b" },
		`--job-name "x\ny"`:    func(c *ScriptConfig) { c.Name = "x\ny" },
		`--sbatch "exclusive"`: func(c *ScriptConfig) { c.More = []string{"exclusive"} },
		`--sbatch "--a #b"`:    func(c *ScriptConfig) { c.More = []string{"--a #b"} },
	} {
		c := full()
		change(&c)
		if _, err := Script(c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want an error about %s", err, want)
		}
	}
}

func TestTimeLimits(t *testing.T) {
	for text, want := range map[string]string{
		"90": "90", "8:00:00": "8:00:00", "2-12": "2-12", "2-12:30": "2-12:30", "2-1:2:3": "2-1:2:3", "10:30": "10:30",
		"90m": "01:30:00", "2h30m": "02:30:00", "100h": "100:00:00", "1m30s": "00:01:30",
		"": "", "4x": "", "30s": "", "-5m": "", "1:2:3:4": "", "8:61": "", "x": "",
	} {
		got, err := Limit(text)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("Limit(%q) is %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestTheLengthOfATimeLimit(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90": 90 * time.Minute, "10:30": 10*time.Minute + 30*time.Second, "8:00:01": 8*time.Hour + time.Second,
		"2-12": 60 * time.Hour, "2-12:30": 60*time.Hour + 30*time.Minute, "1-0:0:5": 24*time.Hour + 5*time.Second,
	} {
		if got, ok := LimitTime(text); !ok || got != want {
			t.Errorf("LimitTime(%q) is %s, %t; want %s", text, got, ok, want)
		}
	}
	if _, ok := LimitTime("99999999"); ok {
		t.Error("LimitTime(99999999) has a length")
	}
}
