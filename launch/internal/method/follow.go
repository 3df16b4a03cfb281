package method

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// returnTime is how long an agent whose host has a line in host_worker may be idle before the host
// is added again. Lost workers are started again there by themselves; those that were given up are
// not.
const returnTime = 3 * time.Second

// Follow implements Follower: it puts the hosts of agents that dial in into host_worker.
func (a *Agents) Follow(ctx context.Context, files *hostworker.Files) {
	f := &follower{files: files, expected: a.wasExpected, idle: a.idle, log: a.cfg.Logger, most: hosts.MaxSlots, returned: make(map[string]time.Time)}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case c := <-a.cfg.Listener.Changes():
			f.changed(c, time.Now())
		case now := <-tick.C:
			f.addAgain(now)
		case <-ctx.Done():
			return
		}
	}
}

// A follower adds the hosts of agents to a running job.
type follower struct {
	files *hostworker.Files

	// expected reports whether the job begins with a host that it has not seen yet.
	expected func(h hosts.Host) bool

	// idle reports whether nothing of the job is on an agent, and nobody waits for it.
	idle func(name string) bool

	log *slog.Logger

	// most bounds the hosts of host_worker, lost ones among them.
	most int

	// returned says since when agents are there whose hosts are in host_worker.
	returned map[string]time.Time
}

// changed takes note of an agent that has dialled in, or is gone.
func (f *follower) changed(c dialin.Change, now time.Time) {
	name, h := c.Info.Name, c.Info.Host()
	if !c.Joined {
		delete(f.returned, name)
		f.log.Info(fmt.Sprintf("agent %s is gone", name))
		return
	}
	switch {
	case f.expected(h):
	case f.files == nil:
		f.log.Info(fmt.Sprintf("agent %s has dialled in; the hosts of this job are fixed: it takes part if a host of that name is lost", name))
	case c.Info.Runs == dialin.RunsServers:
		f.log.Info(fmt.Sprintf("agent %s has dialled in; it runs no workers: for a server there, use launch ctl add-server %s", name, name))
	case slices.ContainsFunc(f.files.Hosts(), h.Same):
		f.log.Info(fmt.Sprintf("agent %s has dialled in; its host is in %s already", name, hostworker.Name))
		f.returned[name] = now
	case len(f.files.Hosts()) >= f.most:
		// Agents may come under any number of names.
		f.log.Warn(fmt.Sprintf("agent %s has dialled in; %s names %d hosts already, so it is not added: take lost hosts out (launch ctl remove HOST)", name, hostworker.Name, f.most))
	default:
		f.log.Info(fmt.Sprintf("agent %s has dialled in; its host is added to the job", name))
		if err := f.files.Edit(hostworker.Change{Added: []hosts.Host{h}}); err != nil {
			f.log.Error(err.Error())
		}
	}
}

// addAgain adds hosts that are in host_worker, and on which nothing of the job is though their
// agents have been back for a while.
func (f *follower) addAgain(now time.Time) {
	for name, since := range f.returned {
		switch {
		case !f.idle(name):
			delete(f.returned, name)
		case now.Sub(since) >= returnTime:
			delete(f.returned, name)
			f.files.Repeat(hosts.Host{Name: name})
		}
	}
}
