package ssh

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/launch/hosts"
	"github.com/paragon-train/paragon/launch/ssh/sshtest"
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
	got := m.rsyncArgs(hosts.Host{User: "me", Name: "fe80::1"}, "/src/", "-a b")
	rsh := `ssh -F 'it''s mine' -T -o BatchMode=yes -o ServerAliveInterval=5 -o ServerAliveCountMax=3 -o ConnectTimeout=20`
	want := []string{"-azs", "--exclude=.git", "-e", rsh, "--", "/src/", "me@[fe80::1]:./-a b/"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestExplainSaysWhatToDo(t *testing.T) {
	h := hosts.Host{Name: "d1"}
	for _, tc := range []struct{ said, want string }{
		{"", "launch: host d1: cause"},
		{"ssh: connect to host d1 port 22: Connection refused", "launch: host d1: ssh: connect to host d1 port 22: Connection refused; does sshd run there, on this port?"},
		{"something else", "launch: host d1: something else: cause"},
	} {
		if got := explain(h, tc.said, errors.New("cause")).Error(); got != tc.want {
			t.Errorf("explain(%q) = %q, want %q", tc.said, got, tc.want)
		}
	}
}

// A host that lacks this build of launch gets it once; what is copied is what runs, and nothing else stays.
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
	m.size++ // as if the connection broke on the way
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
