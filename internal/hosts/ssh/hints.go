package ssh

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// causes are messages of ssh, rsync and the shells of hosts, and what to do about each. The first
// match counts.
var causes = []struct {
	said *regexp.Regexp
	hint func(t target) string
}{
	// A changed key is not a new key: accepting it by hand may give the job to an attacker's
	// machine.
	{regexp.MustCompile(`REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for \S+ has changed`), func(t target) string {
		return "its host key has changed: either the host was reinstalled, or another machine answers in its place (an attack). " +
			"Compare the fingerprint that ssh shows with one from the administrator of the host; if they are the same, remove the old key: " + t.forget()
	}},
	{regexp.MustCompile(`Host key verification failed`), func(t target) string { return "log in once by hand to accept its host key: " + t.login() }},
	{regexp.MustCompile(`Could not resolve hostname`), say("is the name in the hosts file right?")},
	// sshd lists the remaining methods in parentheses; rsync and shells, which refuse a file,
	// do not.
	{regexp.MustCompile(`Permission denied \([a-z][a-z0-9,-]*\)`), func(t target) string { return "give your key to the host: " + t.copyID() + "; or load it: ssh-add" }},
	{regexp.MustCompile(`Too many authentication failures`), say("the ssh agent offers too many keys; name one with IdentityFile, and IdentitiesOnly yes, in ~/.ssh/config")},
	{regexp.MustCompile(`is your shell clean|protocol version mismatch`),
		say("a login script there prints something, which breaks rsync; let .bashrc print in interactive shells only (ssh HOST true must print nothing)")},
	{regexp.MustCompile(`(?:rsync: (?:command )?not found|No such file or directory: rsync|rsync: No such file)`), say("install rsync there")},
	{regexp.MustCompile(`\[sender\] [^\[\]]* failed: Permission denied`), say("a file in the current folder of this machine cannot be read; make it readable, or move it away")},
	{regexp.MustCompile(`exec: .*Permission denied`), say("the home folder there does not allow programs to run (mounted noexec); ask the administrator of the host")},
	{regexp.MustCompile(`Permission denied`), func(t target) string {
		return "the login succeeded, but its user may not write that folder; choose another folder, or change its owner or mode there (chown, chmod)"
	}},
	{regexp.MustCompile(`No space left on device|[Dd]isk quota exceeded`), say("make room on the host's disk, or choose a folder on another one")},
	{regexp.MustCompile(`Read-only file system`), say("choose a writable folder")},
	{regexp.MustCompile(`Connection refused`), say("does sshd run there, on this port?")},
	{regexp.MustCompile(`timed out`), say("is the host up, and does a firewall let ssh through?")},
	{regexp.MustCompile(`No route to host|Network is unreachable`), say("is the host up, and on the same network?")},
	{regexp.MustCompile(`kex_exchange_identification|Connection (?:closed|reset) by`), say("sshd closed the connection: too many logins at once (MaxStartups), or it refuses this machine")},
}

func say(hint string) func(target) string { return func(target) string { return hint } }

// hint is what to do about a message; empty: the message is not known.
func hint(m *Method, h hosts.Host, said string) string {
	for _, c := range causes {
		if c.said.MatchString(said) {
			return c.hint(target{m, h, said})
		}
	}
	return ""
}

// A target is a host that could not be used.
type target struct {
	m    *Method
	h    hosts.Host
	said string
}

// login is the command that logs in by hand.
func (t target) login() string { return Quote(t.m.Words(t.h)) }

// copyID is the command that copies the user's key to the host.
func (t target) copyID() string {
	if t.h.Port == 0 {
		return "ssh-copy-id " + t.m.login(t.h)
	}
	return fmt.Sprintf("ssh-copy-id -p %d %s", t.h.Port, t.m.login(t.h))
}

// offending matches where ssh found the known key.
var offending = regexp.MustCompile(`Offending \S+ key in (\S+):\d+`)

// changed matches the name of a known key as ssh prints it: [host]:port if the port is not 22.
var changed = regexp.MustCompile(`Host key for (\S+) has changed`)

// forget is the command that removes the host's known key.
func (t target) forget() string {
	name := t.h.Name
	if t.h.Port != 0 && t.h.Port != 22 {
		name = fmt.Sprintf("[%s]:%d", name, t.h.Port)
	}
	if m := changed.FindStringSubmatch(t.said); m != nil {
		name = m[1]
	}
	words := []string{"ssh-keygen"}
	if m := offending.FindStringSubmatch(t.said); m != nil && !strings.HasSuffix(m[1], "/.ssh/known_hosts") {
		words = append(words, "-f", m[1])
	}
	return Quote(append(words, "-R", name))
}
