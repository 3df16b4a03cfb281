package options

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFlagsOfAHostListAreChecked(t *testing.T) {
	hostfile := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hostfile, []byte("d1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ args, want string }{
		{"--hosts-interval 5s p", "--hosts-interval is about a list of hosts; give --hosts-command or --hosts-url, too"},
		{"--hosts-force p", "--hosts-force is about a list of hosts"},
		{"--hosts-command x --hosts-url http://d1/ p", "want one list of hosts, got two"},
		{"--hosts-command= p", "--hosts-command is empty"},
		{"--hosts-url d1 p", `--hosts-url: "d1" is not a URL of a list of hosts; write http://`},
		{"--hosts-command x --hosts-interval 10ms p", "--hosts-interval is 10ms, want at least 1s"},
		{"--hosts-command x --hosts-force p", "--hosts-force is about hosts that leave a running job; give --elastic-training-enabled, too"},
		{"--hosts-command x -H " + hostfile + " p", "--hosts-command adds and removes hosts while the job runs; give --elastic-training-enabled, too, or leave out -H"},
		{"--hosts-command x --launcher local p", "give --elastic-training-enabled, too"},
		{"--hosts-command x --launcher agents --secret-file " + hostfile + ".secret p", "--hosts-command is for hosts that launch reaches by ssh; with --launcher agents they come by themselves"},
		{"--hosts-command x --elastic-training-enabled --adapt-workers p", "--adapt-workers needs a limit; give --max-workers NUMBER"},
	} {
		if _, err := read(append([]string{"-n", "1"}, strings.Fields(tc.args)...)...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("launch %s: %v, want %s", tc.args, err, tc.want)
		}
	}
	for _, args := range []string{"--hosts-command x p", "--hosts-url https://d1/x --hosts-interval 1m p", "-H " + hostfile + " --hosts-command x --elastic-training-enabled --hosts-force p"} {
		o, err := read(append([]string{"-n", "1"}, strings.Fields(args)...)...)
		if err != nil || !o.Start.Remote || o.Start.Method != "ssh" {
			t.Errorf("launch %s: %+v, %v", args, o, err)
		}
	}
}
