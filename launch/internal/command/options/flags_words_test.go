package options

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A flag that is nearly one of launch's is taken for it, if less than half of its letters differ.
func TestAFlagThatIsNearlyOneIsNamed(t *testing.T) {
	for args, want := range map[string]string{
		"-n 1 --tl on p":                   "there is no flag -tl; did you mean --tls?",
		"-n 1 --gpu 1 p":                   "did you mean --gpus?",
		"-n 1 --chkec p":                   "did you mean --check?",
		"-n 1 --elastic-trainng-enable p":  "did you mean --elastic-training-enabled?",
		"-n 1 --elastic-training-enable p": "did you mean --elastic-training-enabled?",
		"-n 1 --tl2x on p":                 "put flags of the workers' command after the command",
		"-n 1 --envs-of-worker A p":        "put flags of the workers' command after the command",
	} {
		if _, err := read(strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("launch %s: got error %v, want one with %q", args, err, want)
		}
	}
}

// The limits of this machine are compared with what the launcher itself connects to: no host in a
// local job, whatever its size.
func TestOnlyJobsOnHostsNeedConnections(t *testing.T) {
	hostfile := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hostfile, []byte("d1\nd2\nd3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]int{"-n 4 p": 0, "-n 4 --launcher local p": 0, "-n 4 -H " + hostfile + " p": 3, "-n 1 -H " + hostfile + " --scheduler-host d9 p": 3,
		"-n 4 --launcher agents --secret-file s --agents 3 p": 3, "-n 4 --launcher agents --secret-file s p": 4} {
		if o, err := read(strings.Fields(args)...); err != nil || o.Start.Connections(o.Workers) != want {
			t.Errorf("launch %s: got %+v, %v, want %d connections", args, o, err, want)
		}
	}
}
