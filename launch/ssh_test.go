package main

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/agent"
	"github.com/paragon-train/paragon/internal/ssh/sshtest"
)

// twoHosts are two hosts to log in to, with a hosts file, a folder to launch from and the flags that use them.
type twoHosts struct {
	*sshtest.Server
	dir   string
	flags []string
}

func newHosts(t *testing.T) *twoHosts {
	t.Helper()
	needProc(t)
	c := &twoHosts{Server: sshtest.Start(t, 2), dir: t.TempDir()}
	c.flags = []string{"-H", c.file(t, "hosts", c.Hosts()), "--ssh-command", strings.Join(c.Client, " ")}
	return c
}

// file writes a file into the folder that launch runs in.
func (c *twoHosts) file(t *testing.T, name, text string) string {
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

func (c *twoHosts) launch(t *testing.T, args ...string) *launcher {
	t.Helper()
	return startLauncher(t, c.dir, append(append([]string(nil), c.flags...), args...)...)
}

func TestJobOverSSHRunsInTheSyncedFolder(t *testing.T) {
	sshtest.Program(t, "rsync", "rsync")
	c := newHosts(t)
	c.file(t, "data/a file", "x")
	c.file(t, ".git/config", "x")
	c.file(t, "train.sh", "#!/bin/sh\ncat 'data/a file' >/dev/null || exit 9\nexec "+self(t)+"\n")
	dst := filepath.Join(t.TempDir(), "it's a $folder")
	value := "it's $HOME, \"x\"\n`y` \\ é"
	t.Setenv("OMP_NUM_THREADS", "3")
	l := c.launch(t, "-n", "3", "-s", "2", "--sync-dst-dir", dst, "--env", "V="+value, "./train.sh")
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
	if _, err := os.Stat(filepath.Join(dst, ".git")); err == nil {
		t.Error(".git was copied")
	}
	wantNoProcess(t, l.job(t), time.Now())
}

// What goes over the network between hosts is encrypted, unless somebody asks for the opposite. The hosts of this test are one machine,
// so its processes are told to use the network all the same.
func TestJobOverSSHEncryptsWhatHostsSay(t *testing.T) {
	for _, tc := range []struct {
		flags []string
		want  string
	}{
		{nil, "worker 0 with TLS"},
		{[]string{"--tls", "off"}, "worker 0 without TLS"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			t.Parallel()
			c := newHosts(t)
			l := c.launch(t, append(tc.flags, "-n", "2", "-s", "2", "--env", "PARAGON_TRANSPORT=tcp",
				`if [ $PARAGON_RANK = 0 ]; then echo worker 0 $([ "$PARAGON_IDENTITY" ] && echo with || echo without) TLS; fi; exec `+self(t))...)
			if code := l.exit(t); code != 0 {
				t.Fatalf("exit code %d, want 0", code)
			}
			if !strings.Contains(l.stdout.String(), tc.want) {
				t.Errorf("stdout has no %q", tc.want)
			}
			if !strings.Contains(l.stdout.String(), "rank 1 of 2 has its sums") {
				t.Error("the job has not done its work")
			}
		})
	}
}

func TestFailureOverSSHDecidesTheExitCode(t *testing.T) {
	t.Parallel()
	c := newHosts(t)
	l := c.launch(t, "-n", "2", "-s", "1", `if [ $PARAGON_RANK = 1 ]; then exit 3; fi; sleep 1000 & wait`)
	if code := l.exit(t); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	wantNoProcess(t, l.job(t), time.Now())
}

const stubborn = `trap '' TERM HUP; sleep 1000 & setsid sh -c 'trap "" TERM HUP; while :; do sleep 0.2; done' & echo ready; while :; do sleep 0.2; done`

// stubbornJob starts a job that nobody can stop politely.
func (c *twoHosts) stubbornJob(t *testing.T) (*launcher, string) {
	t.Helper()
	l := c.launch(t, "-n", "2", "-s", "2", "--stop-timeout", "500ms", stubborn)
	job := l.job(t)
	l.await(t, "worker 0  | ready")
	l.await(t, "worker 1  | ready")
	return l, job
}

func TestKilledLauncherLeavesNoProcessAndNoSecretOnAnyHost(t *testing.T) {
	t.Parallel()
	c := newHosts(t)
	c.flags = append(c.flags, "--scheduler-host", fmt.Sprintf("%s:%d", c.Addresses[1], c.Port), "--on-worker-loss", "shrink")
	l, job := c.stubbornJob(t)
	secrets := secretsOf(job)
	if len(secrets) < 6 { // one for all, and a key for each of five
		t.Fatalf("the job's processes have %d secrets, want 6", len(secrets))
	}
	at := time.Now()
	l.Process.Kill()
	<-l.done
	wantNoSecret(t, secrets, c.Home, c.dir, l.records)
	wantNoProcess(t, job, at)
	wantNoSecret(t, secrets, c.Home, c.dir, l.records)
	if state := filepath.Join(c.Home, ".paragon", "state"); len(filesBelow(t, state)) != 0 {
		t.Errorf("the scheduler's host has %q, want nothing of the job", filesBelow(t, state))
	}
}

func TestInterruptLeavesNoProcessOnAnyHost(t *testing.T) {
	t.Parallel()
	l, job := newHosts(t).stubbornJob(t)
	at := time.Now()
	l.Process.Signal(syscall.SIGINT)
	if code := l.exit(t); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	wantNoProcess(t, job, at)
}

func TestCutConnectionLeavesNoProcessOnAnyHost(t *testing.T) {
	t.Parallel()
	c := newHosts(t)
	l, job := c.stubbornJob(t)
	at := time.Now()
	c.Cut()
	if code := l.exit(t); code != 255 {
		t.Errorf("exit code %d, want 255", code)
	}
	wantNoProcess(t, job, at)
	if want := "connection to 127.0.0.2:"; !strings.Contains(l.stderr.String(), want) {
		t.Errorf("stderr has no %q", want)
	}
}

// A host that hears nothing more, and is not told why: a cable is out.
func TestSilentConnectionLeavesNoProcessOnAnyHost(t *testing.T) {
	t.Parallel()
	l, job := newHosts(t).stubbornJob(t)
	at := time.Now()
	l.Process.Signal(syscall.SIGSTOP) // no more pings, and no connection closes
	defer l.Process.Signal(syscall.SIGCONT)
	// The last ping came up to half a second ago. The scheduler is here, where a launcher may be stopped.
	wantNone(t, at.Add(agent.PingInterval), func() []int { return processesOf(job, "scheduler") })
}

func TestStartErrorsNameTheHostAndSayWhatToDo(t *testing.T) {
	t.Parallel()
	c := newHosts(t)
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
	c := newHosts(t)
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

// The check copies a file as the job will copy its folder, so that it fails where the job would. It leaves nothing behind, and what was there
// as it was.
func TestCheckReallyCopiesAFile(t *testing.T) {
	t.Parallel()
	sshtest.Program(t, "rsync", "rsync")
	c := newHosts(t)
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
func (c *twoHosts) forceCommand(t *testing.T, command string) {
	t.Helper()
	if err := c.Force(command); err != nil {
		t.Fatal(err)
	}
}
