package ssh

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/paragon-train/paragon/internal/hosts"
)

// A cause is what ssh, rsync or the host's shell say when something is wrong, and what to do about it. The first one that fits counts.
var causes = []struct {
	said *regexp.Regexp
	hint func(t target) string
}{
	// A changed key is no new key: whoever accepts it by hand may hand the job to somebody else's machine.
	{regexp.MustCompile(`REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for \S+ has changed`), func(t target) string {
		return "its host key is not the one that is known: either the host was installed anew, or somebody else answers in its place (an attack). " +
			"Ask whoever runs the host for the fingerprint of its key; only if it is the one that ssh shows, forget the old one: " + t.forget()
	}},
	{regexp.MustCompile(`Host key verification failed`), func(t target) string { return "log in once by hand to accept its key: " + t.login() }},
	{regexp.MustCompile(`Could not resolve hostname`), say("is the name in the hosts file right?")},
	// sshd lists the methods that are left; of files it is rsync or a shell that speaks, and says neither.
	{regexp.MustCompile(`Permission denied \([a-z][a-z0-9,-]*\)`), func(t target) string { return "give your key to the host: " + t.copyID() + "; or load it: ssh-add" }},
	{regexp.MustCompile(`Too many authentication failures`), say("the agent offers too many keys; name one with IdentityFile, and IdentitiesOnly yes, in ~/.ssh/config")},
	{regexp.MustCompile(`is your shell clean|protocol version mismatch`),
		say("a login script there prints something, which rsync takes for an answer; let .bashrc and the like print in interactive shells only (test: ssh HOST true prints nothing)")},
	{regexp.MustCompile(`(?:rsync: (?:command )?not found|No such file or directory: rsync|rsync: No such file)`), say("install rsync there")},
	{regexp.MustCompile(`\[sender\] [^\[\]]* failed: Permission denied`), say("a file in the current folder of this machine cannot be read; allow it, or move it away")},
	{regexp.MustCompile(`exec: .*Permission denied`), say("no program may run in the home folder there (noexec); ask whoever runs the host")},
	{regexp.MustCompile(`Permission denied`), func(t target) string {
		return "the login was accepted, but its user may not write that folder; choose another one, or have it changed there (chown, chmod)"
	}},
	{regexp.MustCompile(`No space left on device|[Dd]isk quota exceeded`), say("make room on the host's disk, or choose a folder on another one")},
	{regexp.MustCompile(`Read-only file system`), say("choose a folder that can be written")},
	{regexp.MustCompile(`Connection refused`), say("does sshd run there, on this port?")},
	{regexp.MustCompile(`timed out`), say("is the host up, and does a firewall let ssh through?")},
	{regexp.MustCompile(`No route to host|Network is unreachable`), say("is the host up, and on the same network?")},
	{regexp.MustCompile(`kex_exchange_identification|Connection (?:closed|reset) by`), say("sshd ended the connection: too many logins at once (MaxStartups), or it takes none from here")},
}

func say(hint string) func(target) string { return func(target) string { return hint } }

// hint is what to do about what was said; empty: that is not known.
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

// copyID is the command that gives the host one's key.
func (t target) copyID() string {
	if t.h.Port == 0 {
		return "ssh-copy-id " + t.m.login(t.h)
	}
	return fmt.Sprintf("ssh-copy-id -p %d %s", t.h.Port, t.m.login(t.h))
}

// offending is where ssh found the key that is known.
var offending = regexp.MustCompile(`Offending \S+ key in (\S+):\d+`)

// changed is the name under which a key is known, [host]:port where the port is not 22, as ssh says it.
var changed = regexp.MustCompile(`Host key for (\S+) has changed`)

// forget is the command that forgets the host's key.
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
