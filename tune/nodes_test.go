package tune

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/affinity"
	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
	"github.com/paragon-train/paragon/tune/internal/slots"
)

// This test program is copied to hosts as launch is, and is an agent there.
func init() {
	if len(os.Args) == 3 && os.Args[1] == "agent" {
		gpus := func() ([]string, error) {
			if os.Getenv("PARAGON_TEST_GPUS") == "" {
				return nil, errors.New("the driver does not answer")
			}
			return strings.Split(os.Getenv("PARAGON_TEST_GPUS"), ","), nil
		}
		if err := agent.Serve(context.Background(), os.Stdin, os.Stdout, agent.Config{Lease: -1, GPUs: gpus}); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// fakeSSH is a program in place of ssh: hosts are this machine, with a home folder of their own;
// "gone" is none.
func fakeSSH(t *testing.T, gpus string) (client, home string) {
	t.Helper()
	dir := t.TempDir()
	client, home = filepath.Join(dir, "an ssh"), filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	script := `#!/bin/sh
while :; do case "$1" in -o|-p|-l) shift 2;; -*) shift;; *) break;; esac; done
host=$1; shift
[ "$host" = gone ] && { echo "ssh: connect to host gone port 22: Connection refused" >&2; exit 255; }
export HOME=` + ssh.Quote([]string{home}) + ` SSH_CONNECTION="127.0.0.1 1 127.0.0.2 22" PARAGON_TEST_GPUS=` + gpus + `
cd && exec sh -c "$*"
`
	if err := os.WriteFile(client, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return ssh.Quote([]string{client}), home
}

func writeHosts(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// A host is asked for its processors and GPUs by the same agent as in a job of launch, and the
// hosts file limits them.
func TestHostsOfferWhatTheHostsFileAllows(t *testing.T) {
	client, home := fakeSSH(t, "GPU-a,GPU-b")
	t.Setenv(ssh.Variable, client)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	j := &Jobs{HostFile: writeHosts(t, "d1\ngone # a comment\nme@d2:2222 slots=3 gpus=1 cpus=1\nd3 gpus=9\nd4 gpus=0\n"), Address: "127.0.0.1", Launch: self,
		Folder: "~/it's there", Logger: slog.New(slog.NewTextHandler(&log, nil))}
	if err := j.Fits(Resources{}); err != nil {
		t.Fatal(err)
	}
	cpus := len(affinity.Own())
	want := []slots.Usage{{Name: "d1", CPUs: cpus, GPUs: 2}, {Name: "me@d2:2222", Slots: 3, CPUs: 1, GPUs: 1}, {Name: "d4", CPUs: cpus}}
	if got := j.usage(); !slices.Equal(got, want) {
		t.Errorf("the nodes are %+v, want %+v", got, want)
	}
	for _, want := range []string{"host=gone", "does sshd run there, on this port?", "host=d3", "the hosts file says gpus=9, and the host has 2"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
	table, err := j.Nodes()
	if err != nil || !strings.Contains(table.String(), "me@d2:2222") || !strings.Contains(table.String(), "set aside: host gone: ssh: connect to host gone port 22") {
		t.Errorf("the table is\n%s%v", table.String(), err)
	}

	g, err := j.Acquire(t.Context(), Resources{GPUs: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := g.Location(), "me@d2:2222:gpuGPU-a"; got != want {
		t.Errorf("the trial is at %q, want %q", got, want)
	}
	g.Release()

	file := filepath.Join(t.TempDir(), "data.txt") // copied to d5 later, too
	t.Run("files are uploaded", func(t *testing.T) {
		sshtest.Program(t, "rsync", "rsync")
		if err := os.WriteFile(file, []byte("42"), 0o640); err != nil {
			t.Fatal(err)
		}
		if err := j.UploadFiles(t.Context(), file); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(home, "it's there", "data.txt")); string(got) != "42" || err != nil {
			t.Errorf("the uploaded file holds %q, %v", got, err)
		}
		if err := j.UploadFiles(t.Context(), home); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("upload of a folder: got %v", err)
		}
	})

	if err := j.Add(t.Context(), "d5 slots=1 gpus=0"); err != nil {
		t.Error(err)
	}
	if err := j.Add(t.Context(), "d6 slots=none"); err == nil || !strings.Contains(err.Error(), "d6: got slots=none, want a number of workers") {
		t.Errorf("add with a bad line: got %v", err)
	}
	for _, host := range []string{"D1.", "d4"} {
		if err := j.Remove(host); err != nil {
			t.Error(err)
		}
	}
	if err := j.Fits(Resources{Hosts: 3}); err == nil {
		t.Error("three nodes fit into d2 and d5")
	}
	if n, err := j.Room(Resources{}); err != nil || n != 2 {
		t.Errorf("room for %d trials (%v), want 2: cpus=1 of d2, slots=1 of d5", n, err)
	}
}

func TestJobsSayWhichHostsTheyCannotUse(t *testing.T) {
	client, _ := fakeSSH(t, "")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	for _, tc := range []struct {
		name, file string
		jobs       *Jobs
		want       string
	}{
		{"no address", "d1\n", &Jobs{}, "Jobs.Address"},
		{"flags without launch", "d1\n", &Jobs{Address: "127.0.0.1", NoServers: true, LaunchFlags: []string{"--tls"}}, "Jobs.LaunchFlags are for jobs with servers"},
		{"a wait that never was", "d1\n", &Jobs{Address: "127.0.0.1", HostTimeout: -1}, "Jobs.HostTimeout is -1ns: want 0 (10m0s) or more"},
		{"a bad line", "d1\nd2 cores=4\n", &Jobs{Address: "127.0.0.1"}, `hosts line 2: d2: got "cores=4", want slots=N, gpus=N or cpus=N`},
		{"a bad client", "d1\n", &Jobs{Address: "127.0.0.1", SSH: "ssh 'x"}, "a single quote is not closed"},
		{"no host answers", "gone\n", &Jobs{Address: "127.0.0.1"}, "no host can be used: host gone: ssh: connect to host gone port 22: Connection refused; does sshd run there"},
		{"a broken driver", "d1\n", &Jobs{Address: "127.0.0.1"}, "the driver does not answer; to use the host without GPUs write gpus=0"},
	} {
		j := tc.jobs
		if j.HostFile, j.Launch, j.Logger = writeHosts(t, tc.file), self, quiet; j.SSH == "" {
			j.SSH = client
		}
		if err := j.Fits(Resources{}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", tc.name, err, tc.want)
		}
	}
}
