package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A command whose output is lost does not end with 0, and says why.
func TestABrokenOutputIsAnExitCode(t *testing.T) {
	takesLong(t)
	t.Parallel()
	needProc(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full: ", err)
	}
	defer full.Close()
	j := startElastic(t)
	dir := counting(t, "0", "")
	tuneIn(t, dir, 0, "study.yaml")
	keys := filepath.Join(t.TempDir(), "keys.safetensors")
	header := `{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`
	for len(header)%8 != 0 {
		header += " "
	}
	size := string([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0})
	if err := os.WriteFile(keys, []byte(size+header+"\x00\x00\x80\x3f\x00\x00\x00\x40"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"--help", "--check -n 1", "-n 1 -s 1 echo hello", "ctl --help", "ctl status", "ctl status --json", "ctl why", "ctl why --json", "ctl add --help", "ctl add 127.0.0.2",
		"ctl remove --wait 127.0.0.2", "ctl plan " + keys, "ctl plan --keys " + keys, "tune --help", "tune --dry-run study.yaml", "tune show runs/count",
		"tune why runs/count 1", "tune replay runs/count", "tune --dir runs/again study.yaml",
	} {
		where := dir
		if strings.HasPrefix(args, "ctl") {
			where = j.dir
		}
		l := startOutput(t, full, where, []string{"XDG_RUNTIME_DIR=" + j.records}, strings.Fields(args)...)
		if code := l.exit(t); code != 1 || !strings.Contains(l.stderr.String(), "no space left on device") {
			t.Errorf("launch %s >/dev/full: exit code %d, want 1 and the cause:\n%s", args, code, l.stderr)
		}
	}
	// A pipe that nobody reads ends launch by SIGPIPE, as it does other programs; its job ends
	// with it.
	for _, args := range []string{"--help", "ctl status --json", "tune show runs/count", "-n 1 -s 1 while::;do:echo:hello;sleep:0.05;done"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		words := strings.Fields(args)
		last := len(words) - 1
		words[last] = strings.NewReplacer("::", " :", ":", " ").Replace(words[last])
		where := dir
		if words[0] == "ctl" {
			where = j.dir
		}
		l := startOutput(t, w, where, []string{"XDG_RUNTIME_DIR=" + j.records}, words...)
		w.Close()
		if code := l.exit(t); code == 0 {
			t.Errorf("launch %s into a closed pipe: exit code 0", args)
		}
		if m := jobLine.FindStringSubmatch(l.stderr.String()); m != nil {
			wantNoProcess(t, m[1], time.Now())
		}
	}
	j.finish(t)
}
