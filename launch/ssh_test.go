package main

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
)

// sshHosts are hosts to log in to, with a hosts file, a folder to launch from and the flags that
// use them.
type sshHosts struct {
	*sshtest.Server
	dir   string
	flags []string
}

func newHosts(t *testing.T, hosts int) *sshHosts {
	t.Helper()
	needProc(t)
	c := &sshHosts{Server: sshtest.Start(t, hosts), dir: t.TempDir()}
	c.flags = []string{"-H", c.file(t, "hosts", c.Hosts()), "--ssh-command", strings.Join(c.Client, " ")}
	return c
}

// file writes a file into the folder that launch runs in.
func (c *sshHosts) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func (c *sshHosts) launch(t *testing.T, args ...string) *launcher {
	t.Helper()
	return startLauncher(t, c.dir, append(append([]string(nil), c.flags...), args...)...)
}

func TestJobOverSSHRunsInTheSyncedFolder(t *testing.T) {
	takesLong(t)
	t.Parallel()
	sshtest.Program(t, "rsync", "rsync")
	c := newHosts(t, 2)
	c.file(t, "data/a file", "x")
	c.file(t, ".git/config", "x")
	c.file(t, "runs/a/large", "x")
	c.file(t, "data/runs/a", "x")
	c.file(t, "train.sh", "#!/bin/sh\ncat 'data/a file' >/dev/null || exit 9\nexec "+self(t)+"\n")
	dst := filepath.Join(t.TempDir(), "it's a $folder")
	value := "it's $HOME, \"x\"\n`y` \\ é"
	l := c.launch(t, "-n", "3", "-s", "2", "--sync-dst-dir", dst, "--sync-exclude", "./runs/a", "--env", "V="+value, "./train.sh")
	if code := l.exit(t); code != 0 {
		t.Fatalf("exit code %d, want 0", code)
	}
	for rank, host := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.2"} {
		want := fmt.Sprintf("worker %d  | rank %[1]d of 3 has its sums at %s in %s, V=%q\n", rank, host, dst, value)
		if !strings.Contains(l.stdout.String(), want) {
			t.Errorf("stdout has no line %q", want)
		}
		if want := fmt.Sprintf("worker     %d     %s:%d", rank, host, c.Port); !strings.Contains(l.stderr.String(), want) {
			t.Errorf("the tables have no %q", want)
		}
	}
	if want := fmt.Sprintf(" INFO rsync %s/ -> 127.0.0.2:%s\n", c.dir, dst); !strings.Contains(l.stderr.String(), want) {
		t.Errorf("the log has no line %q", want)
	}
	if want := fmt.Sprintf(" INFO each host gets a copy of %s: 4 files, 0.0 MB\n", c.dir); strings.Count(l.stderr.String(), want) != 1 {
		t.Errorf("the log has not once the line %q", want)
	}
	for name, want := range map[string]bool{".git": false, "runs/a": false, "data/runs/a": true} {
		if _, err := os.Stat(filepath.Join(dst, name)); (err == nil) != want {
			t.Errorf("%s: %v, want it copied: %t", name, err, want)
		}
	}
	wantNoProcess(t, l.job(t), time.Now())
}

// The scheduler may run on a host, and keeps its state there.
func TestKilledLauncherLeavesNoStateOnTheSchedulersHost(t *testing.T) {
	takesLong(t)
	t.Parallel()
	c := newHosts(t, 2)
	l := c.launch(t, "-n", "2", "-s", "2", "--scheduler-host", fmt.Sprintf("%s:%d", c.Addresses[1], c.Port), "--on-worker-loss", "shrink", "echo ready; exec sleep 1000")
	job := l.job(t)
	l.await(t, "worker 0  | ready")
	at := time.Now()
	l.Process.Kill()
	<-l.done
	wantNoProcess(t, job, at)
	if state := filepath.Join(c.Home, ".paragon", "state"); len(filesBelow(t, state)) != 0 {
		t.Errorf("the scheduler's host has %q, want nothing of the job", filesBelow(t, state))
	}
}

func TestStartErrorsNameTheHostAndSayWhatToDo(t *testing.T) {
	t.Parallel()
	c := newHosts(t, 2)
	closed, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	port := closed.Addr().(*net.TCPAddr).Port
	closed.Close()
	key, err := os.ReadFile(filepath.Join(filepath.Dir(c.Config), "user.pub")) // some other key
	if err != nil {
		t.Fatal(err)
	}
	changed := c.file(t, "changed", fmt.Sprintf("[127.0.0.2]:%d %s[127.0.0.3]:%[1]d %[2]s", c.Port, key))
	for _, tc := range []struct {
		name, hosts string
		args        []string
		want        []string
	}{
		{"no such name", "no-such-host.invalid\n" + c.Hosts(), nil,
			[]string{"host no-such-host.invalid", "Could not resolve hostname", "is the name in the hosts file right?"}},
		{"nobody listens", fmt.Sprintf("127.0.0.2:%d\n", port), nil, []string{fmt.Sprintf("host 127.0.0.2:%d", port), "Connection refused", "does sshd run there"}},
		{"unknown key", fmt.Sprintf("localhost:%d\n127.0.0.1:%[1]d\n", c.Port), []string{"--ssh-command", strings.Join(c.Client, " ") + " -o HostName=127.0.0.2 -o HostKeyAlias=other"},
			[]string{"host localhost", "host 127.0.0.1", "Host key verification failed", "log in once by hand"}},
		{"changed key", c.Hosts(), []string{"--ssh-command", strings.Join(c.Client, " ") + " -o UserKnownHostsFile=" + changed},
			[]string{"either the host was reinstalled, or another machine answers in its place", fmt.Sprintf("ssh-keygen -f %s -R '[127.0.0.2]:%d'", changed, c.Port)}},
		{"wrong user", fmt.Sprintf("no-such-user@127.0.0.2:%d", c.Port), nil, []string{"host no-such-user@127.0.0.2", "Permission denied", "ssh-copy-id"}},
		{"no folder", c.Hosts(), []string{"--sync-dst-dir", "/proc/none"}, []string{"make folder for --sync-dst-dir", "/proc/none"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hosts := c.file(t, "hosts.bad", tc.hosts)
			l := c.launch(t, append(append([]string{"-H", hosts}, tc.args...), "-n", "2", "true")...)
			if code := l.exit(t); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			for _, want := range tc.want {
				if !strings.Contains(l.stderr.String(), want) {
					t.Errorf("stderr has no %q", want)
				}
			}
		})
	}
}

func TestCheckSaysWhatIsWrongWithEachHost(t *testing.T) {
	t.Parallel()
	sshtest.Program(t, "rsync", "rsync")
	c := newHosts(t, 2)
	dst := filepath.Join(t.TempDir(), "dst")
	l := c.launch(t, "--check", "--sync-dst-dir", dst)
	if code := l.exit(t); code != 0 {
		t.Errorf("good hosts: exit code %d, want 0", code)
	}
	if n := strings.Count(l.stdout.String(), " ok\n"); n != 2 {
		t.Errorf("good hosts: %d are ok, want 2", n)
	}
	if _, err := os.Stat(dst); err == nil {
		t.Errorf("the check has left the folder %s behind", dst)
	}
	hosts := c.file(t, "hosts.bad", "no-such-host.invalid\n"+c.Hosts())
	l = c.launch(t, "-H", hosts, "--check", "--sync-dst-dir", "/proc/none")
	if code := l.exit(t); code != 1 {
		t.Errorf("bad hosts: exit code %d, want 1", code)
	}
	for _, want := range []string{
		"no-such-host.invalid: ", "Could not resolve hostname", "1 problem",
		fmt.Sprintf("127.0.0.3:%d: launch: on 127.0.0.3:%[1]d: mkdir /proc/none", c.Port),
	} {
		if !strings.Contains(l.stdout.String(), want) {
			t.Errorf("bad hosts: the report has no %q", want)
		}
	}
}

// The check copies a file as the job will copy its folder, so that it fails where the job would. It
// leaves nothing behind, and what was there as it was.
func TestCheckReallyCopiesAFile(t *testing.T) {
	takesLong(t)
	t.Parallel()
	sshtest.Program(t, "rsync", "rsync")
	c := newHosts(t, 2)
	root := t.TempDir()
	dst := filepath.Join(root, "a", "b c")
	for name, setup := range map[string]struct {
		make func(t *testing.T)
		code int
		want string
	}{
		"nothing is there": {func(*testing.T) {}, 0, " ok\n"},
		"a part is there":  {func(t *testing.T) { mustWrite(t, filepath.Join(root, "a", "other"), "x") }, 0, " ok\n"},
		"all is there":     {func(t *testing.T) { mustWrite(t, filepath.Join(dst, "other"), "x") }, 0, " ok\n"},
		// As an interactive greeting in .bashrc does, whatever shell this user has.
		"a login shell that prints": {func(t *testing.T) {
			c.forceCommand(t, `echo welcome; exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"`)
		}, 1, "a login script there prints something"},
		"rsync fails there": {func(t *testing.T) {
			c.forceCommand(t, `case "$SSH_ORIGINAL_COMMAND" in rsync*) echo "rsync: [Receiver] mkdir failed: Permission denied (13)" >&2; exit 11;; esac; exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"`)
		}, 1, "its user may not write that folder"},
	} {
		t.Run(name, func(t *testing.T) {
			setup.make(t)
			before := filesAndFolders(t, root)
			l := c.launch(t, "--check", "--sync-dst-dir", dst)
			if code := l.exit(t); code != setup.code || !strings.Contains(l.stdout.String(), setup.want) {
				t.Errorf("exit code %d, want %d and %q", code, setup.code, setup.want)
			}
			if after := filesAndFolders(t, root); !slices.Equal(before, after) {
				t.Errorf("after the check there is\n%q\nbefore it there was\n%q", after, before)
			}
			c.forceCommand(t, "")
			if err := os.RemoveAll(filepath.Join(root, "a")); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func mustWrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

// filesAndFolders are all below dir, with their modes.
func filesAndFolders(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				all = append(all, fmt.Sprintf("%s %s", info.Mode(), path))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// forceCommand has sshd run a command in place of what is asked for; empty: that.
func (c *sshHosts) forceCommand(t *testing.T, command string) {
	t.Helper()
	if err := c.Force(command); err != nil {
		t.Fatal(err)
	}
}
