package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/member/searchcontrol"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/tune"
)

// launch tune hosts, add and remove put their words to the search of a folder, and print its
// answer.
func TestTuneAsksARunningSearch(t *testing.T) {
	dir := t.TempDir()
	s, err := searchcontrol.Serve(dir, func(_ context.Context, q searchcontrol.Request) (string, error) {
		if q.Host == "d9" {
			return "", errors.New("tune: add host d9: Connection refused")
		}
		return q.Op + " [" + q.Host + "]\n", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"hosts " + dir, 0, "hosts []\n"},
		{"add " + dir + " me@d3:2222 slots=4", 0, "add [me@d3:2222 slots=4]\n"},
		{"remove " + dir + " d3", 0, "remove [d3]\n"},
		{"add " + dir + " d9", 1, "launch: tune add: tune: add host d9: Connection refused\n"},
		{"hosts " + t.TempDir(), 1, "launch: tune hosts: no search answers in "},
		{"hosts", command.ExitUsage, "tune hosts: got 0 arguments, want the folder of a study"},
		{"add " + dir, command.ExitUsage, "tune add: got 1 arguments, want the folder of a study and a host"},
		{"add " + dir + " d3 cores=4", command.ExitUsage, `got "cores=4", want slots=N, gpus=N or cpus=N`},
		{"remove " + dir, command.ExitUsage, "tune remove: got 1 arguments, want the folder of a study and a host"},
	} {
		var out strings.Builder
		if code := tune.Run(strings.Fields(tc.args), &out, &out); code != tc.code || !strings.Contains(out.String(), tc.want) {
			t.Errorf("%s: exit code %d, want %d, and %q with %q", tc.args, code, tc.code, out.String(), tc.want)
		}
	}
}
