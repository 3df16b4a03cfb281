package method

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// followed is a follower with a host_worker file that names n1.
func followed(t *testing.T) (f *follower, log *bytes.Buffer, poll func() string) {
	files, err := hostworker.Open(t.TempDir(), []hosts.Host{{Name: "n1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	log = &bytes.Buffer{}
	a := NewAgents(AgentsConfig{})
	a.Expect(Any([]hosts.Host{{Name: "n1"}, {Name: "n2"}}))
	f = &follower{files: files, expected: a.wasExpected, idle: func(string) bool { return true }, log: slog.New(slog.NewTextHandler(log, nil)), most: hosts.MaxSlots, returned: make(map[string]time.Time)}
	return f, log, func() string {
		t.Helper()
		c, err := files.Poll()
		if err != nil {
			t.Error(err)
		}
		var added []string
		for _, h := range c.Added {
			added = append(added, h.Entry())
		}
		return strings.Join(added, ", ")
	}
}

func join(name string) dialin.Change { return dialin.Change{Info: infos(name)[0], Joined: true} }
func gone(name string) dialin.Change { return dialin.Change{Info: infos(name)[0]} }

// Hosts with which the job begins are not added when their agents dial in, others are.
func TestAgentsThatDialInLaterAreAdded(t *testing.T) {
	f, _, poll := followed(t)
	now := time.Now()
	for _, tc := range []struct {
		change dialin.Change
		want   string
	}{
		{join("n1"), ""},
		{join("n2"), ""}, // it runs a server
		{join("n3*2"), "n3 slots=2"},
		{join("n4/servers"), ""},
		{join("n5/workers"), "n5"},
		{gone("n2"), ""},
		{join("n2"), "n2"}, // it has come by itself
	} {
		f.changed(tc.change, now)
		if got := poll(); got != tc.want {
			t.Errorf("after %+v: added %q, want %q", tc.change, got, tc.want)
		}
	}
}

// A host of host_worker whose agent is back is used again by the job itself, or else added again.
func TestAgentThatIsBackIsAddedAgainIfTheJobGaveItUp(t *testing.T) {
	f, _, poll := followed(t)
	start := time.Now()
	f.changed(join("n1"), start) // expected
	busy := true
	f.idle = func(string) bool { return !busy }
	back := func() {
		f.changed(gone("n1"), start)
		f.changed(join("n1"), start)
	}
	back()
	f.addAgain(start.Add(returnTime))
	if got := poll(); got != "" {
		t.Errorf("the job uses the host, and it is added: %q", got)
	}
	busy = false
	f.addAgain(start.Add(2 * returnTime))
	if got := poll(); got != "" {
		t.Errorf("the job has used the host, and it is added: %q", got)
	}
	back()
	f.addAgain(start.Add(returnTime - 1))
	if got := poll(); got != "" {
		t.Errorf("before the return time: added %q", got)
	}
	f.addAgain(start.Add(returnTime))
	if got := poll(); got != "n1" {
		t.Errorf("after the return time: added %q, want n1", got)
	}
	back()
	f.changed(gone("n1"), start)
	f.addAgain(start.Add(2 * returnTime))
	if got := poll(); got != "" {
		t.Errorf("the agent is gone: added %q", got)
	}
}

// The hosts of a job that is not elastic stay as they are.
func TestLateAgentOfAFixedJobWaits(t *testing.T) {
	f, log, _ := followed(t)
	path := f.files.Path
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f.files = nil
	f.changed(join("n3"), time.Now())
	f.addAgain(time.Now().Add(time.Hour))
	if want := "it takes part if a host of that name is lost"; !strings.Contains(log.String(), want) {
		t.Errorf("the log is %q, want it to have %q", log, want)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Errorf("host_worker is %q, want %q", after, before)
	}
}

// Agents under ever new names do not make host_worker grow without bound.
func TestHostsOfAgentsAreBounded(t *testing.T) {
	all := make([]hosts.Host, 10)
	for n := range all {
		all[n].Name = fmt.Sprint("n", n)
	}
	files, err := hostworker.Open(t.TempDir(), all)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	var log bytes.Buffer
	f := &follower{files: files, expected: func(hosts.Host) bool { return false }, log: slog.New(slog.NewTextHandler(&log, nil)), most: 12}
	for n := range 20 {
		f.changed(dialin.Change{Info: dialin.Info{Name: fmt.Sprint("m", n)}, Joined: true}, time.Time{})
		if _, err := files.Poll(); err != nil {
			t.Error(err)
		}
	}
	if now, err := files.Read(); err != nil || len(now) != 12 || !strings.Contains(log.String(), "names 12 hosts already") {
		t.Errorf("%d hosts, %v, want 12; log %s", len(now), err, log.String())
	}
}
