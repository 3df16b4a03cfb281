package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/launch/internal/command/ctl"
)

func runTopIn(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	var out, err bytes.Buffer
	code = ctl.RunTop(args, &out, &err)
	return code, out.String(), err.String()
}

func TestTopNeedsATerminalOrOnce(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 1, "launch: top: the standard input and output are not a terminal; use --once or --json\n"},
		{[]string{"--once"}, 1, "no job of yours runs on this machine"},
		{[]string{"--json"}, 1, "no job of yours runs on this machine"},
		{[]string{"now"}, 2, `top: got "now", want flags only`},
		{[]string{"--jsn"}, 2, "did you mean --json?"},
	} {
		if code, _, stderr := runTopIn(t, c.args...); code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("launch top %q: exit code %d, %q, want %d and %q", c.args, code, stderr, c.code, c.want)
		}
	}
	if code, help, _ := runTopIn(t, "--help"); code != 0 || !strings.Contains(help, "launch top --once") || !strings.Contains(help, "Keys: s sorts") {
		t.Errorf("launch top --help: exit code %d\n%s", code, help)
	}
}
