package ssh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
)

func TestClientRunsWithTheUsersConfigurationAndAsksNothing(t *testing.T) {
	m := New(Config{Command: []string{"ssh", "-F", "my config"}})
	got := m.client(hosts.Host{User: "me", Name: "d1", Port: 2222}, "true").Args
	want := []string{"ssh", "-F", "my config", "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
		"-o", "ConnectTimeout=20", "-p", "2222", "--", "me@d1", "exec /bin/sh -c 'true'"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRsyncArgsQuoteTheSSHCommandAndTheFolder(t *testing.T) {
	m := New(Config{Command: []string{"ssh", "-F", "it's mine"}})
	got := m.rsyncArgs(hosts.Host{User: "me", Name: "fe80::1"}, "/src/", "-a b", Source{Exclude: []string{"runs/a", `x[1]\y`, `z\`}}.patterns()...)
	rsh := `ssh -F 'it''s mine' -T -o BatchMode=yes -o ServerAliveInterval=5 -o ServerAliveCountMax=3 -o ConnectTimeout=20`
	want := []string{"-azs", "--exclude=.git", "--exclude=/runs/a", `--exclude=/x\[1]\\y`, `--exclude=/z\`, "-e", rsh, "--", "/src/", "me@[fe80::1]:./-a b/"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestExplainSaysWhatToDo(t *testing.T) {
	const changed = `@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ @ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @ @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ ` +
		`IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY! Offending ED25519 key in %s:3 Host key for %s has changed and you have requested strict checking. Host key verification failed.`
	host, port := hosts.Host{User: "me", Name: "d1"}, hosts.Host{User: "me", Name: "d1", Port: 2222}
	for _, tc := range []struct {
		h          hosts.Host
		said, want string
		not        string
	}{
		{host, "", "launch: host me@d1: cause", ";"},
		{host, "ssh: connect to host d1 port 22: Connection refused", "launch: host me@d1: ssh: connect to host d1 port 22: Connection refused; does sshd run there, on this port?", ""},
		{host, "something else", "launch: host me@d1: something else: cause", ";"},
		{host, "No ED25519 host key is known for d1 and you have requested strict checking. Host key verification failed.", "log in once by hand to accept its host key: ssh -F 'my config' me@d1", "attack"},
		{port, "Host key verification failed.", "log in once by hand to accept its host key: ssh -F 'my config' me@d1 -p 2222", "attack"},
		{host, fmt.Sprintf(changed, "/home/me/.ssh/known_hosts", "d1"), "either the host was reinstalled, or another machine answers in its place (an attack)", "log in once by hand"},
		{host, fmt.Sprintf(changed, "/home/me/.ssh/known_hosts", "d1"), "remove the old key: ssh-keygen -R d1", "@@"},
		{port, fmt.Sprintf(changed, "/etc/known", "[d1]:2222"), "remove the old key: ssh-keygen -f /etc/known -R '[d1]:2222'", "log in once by hand"},
		{port, changed[len(changed)-40:], "log in once", ""},
		{host, "me@d1: Permission denied (publickey).", "give your key to the host: ssh-copy-id me@d1; or load it: ssh-add", "folder"},
		{port, "me@d1: Permission denied (publickey,keyboard-interactive).", "give your key to the host: ssh-copy-id -p 2222 me@d1; or", "folder"},
		{host, `rsync: [Receiver] mkdir "/job" failed: Permission denied (13) rsync error: error in file IO (code 11) at main.c(791) [Receiver=3.2.7]`, "its user may not write that folder", "key"},
		{host, `rsync: [generator] recv_generator: mkdir "/job/x" failed: Permission denied (13) rsync error: some files/attrs were not transferred (code 23) at main.c(1338) [sender=3.2.7]`, "its user may not write that folder", "key"},
		{host, `rsync: [sender] opendir "/home/me/job/private" failed: Permission denied (13) rsync error: some files could not be transferred (code 23) at main.c(1338) [sender=3.2.7]`, "a file in the current folder of this machine cannot be read", "key"},
		{host, "mkdir: cannot create directory '/home/me/.cache': Permission denied", "its user may not write that folder", "key"},
		{host, "/bin/sh: 1: exec: /home/me/.cache/paragon/launch-01: Permission denied", "noexec", "key"},
		{host, "protocol version mismatch -- is your shell clean? (see the rsync manpage for an explanation) rsync error: protocol incompatibility (code 2)", "a login script there prints something", ""},
		{host, "bash: line 1: rsync: command not found rsync: connection unexpectedly closed (0 bytes received so far) [sender]", "install rsync there", ""},
		{host, `rsync: [receiver] write failed on "/job/data": No space left on device (28)`, "make room on the host's disk", ""},
		{host, "kex_exchange_identification: read: Connection reset by peer", "MaxStartups", ""},
	} {
		got := New(Config{Command: []string{"ssh", "-F", "my config"}}).explain(tc.h, tc.said, errors.New("cause")).Error()
		if !strings.Contains(got, tc.want) || tc.not != "" && strings.Contains(got, tc.not) {
			t.Errorf("explain(%q) =\n%q, want\n%q, and not %q", tc.said, got, tc.want, tc.not)
		}
	}
}

// A host that lacks this build of launch gets it once; what is copied is what runs, and nothing
// else stays.
func TestInstallCopiesTheProgramWhole(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t, 1)
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho not an agent, but $1 >&2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	m := New(Config{Command: s.Client, Executable: program, AgentArgs: []string{"a1"}})
	h := hosts.Host{Name: s.Addresses[0], Port: s.Port}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := m.Dial(ctx, h); err == nil || !strings.Contains(err.Error(), "not an agent, but a1") {
		t.Errorf("Dial: %v, want what the program says", err)
	}
	entries, err := os.ReadDir(filepath.Join(s.Home, ".cache", "paragon"))
	if err != nil || len(entries) != 1 || entries[0].Name() != "launch-"+m.sum {
		t.Fatalf("~/.cache/paragon has %v, %v, want launch-%s alone", entries, err, m.sum)
	}
	if info, _ := entries[0].Info(); info.Mode().Perm() != 0o700 {
		t.Errorf("the program has mode %s, want 0700", info.Mode())
	}

	// It is as if the connection broke on the way.
	m.size++
	m.sum = "other"
	if err := m.install(ctx, h, uname(t)); err == nil {
		t.Error("install of a program that came short: no error")
	}
	if entries, _ = os.ReadDir(filepath.Join(s.Home, ".cache", "paragon")); len(entries) != 1 {
		t.Errorf("~/.cache/paragon has %v after a copy that came short, want the old program alone", entries)
	}
}

func TestInstallRefusesAnotherSystem(t *testing.T) {
	m := New(Config{})
	err := m.install(t.Context(), hosts.Host{Name: "d1"}, "Plan9 mips")
	if want := "host d1 is Plan9 mips, this launch is built for " + runtime.GOOS; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

func uname(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("uname", "-s", "-m").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestDialGivesUpWithItsContext(t *testing.T) {
	program := filepath.Join(t.TempDir(), "slow")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nsleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	m := New(Config{Command: []string{program}, Executable: program})
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("the time is over"))
	defer cancel()
	begin := time.Now()
	_, err := m.Dial(ctx, hosts.Host{Name: "d1"})
	if err == nil || !strings.Contains(err.Error(), "host d1: the time is over") || time.Since(begin) > 20*time.Second {
		t.Errorf("Dial: %v after %s", err, time.Since(begin))
	}
}
