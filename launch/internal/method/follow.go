package method

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/agent/dialin"
	"github.com/paragon-train/paragon/internal/hosts"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// returnTime is how long an agent whose host has a line in host_worker may be idle before the host is added again. Lost workers are started
// again there by themselves; those that were given up are not.
const returnTime = 3 * time.Second

// Follow implements Follower: it puts the hosts of agents that dial in into host_worker.
func (a *Agents) Follow(ctx context.Context, files *hostworker.Files) {
	f := &follower{agents: a, files: files, returned: make(map[string]time.Time)}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	changes := a.cfg.Listener.Changes()
	for {
		select {
		case c, open := <-changes:
			switch {
			case !open:
				return
			case c.Joined:
				f.joined(c.Info)
			default:
				delete(f.returned, c.Info.Name)
				a.cfg.Logger.Warn(fmt.Sprintf("agent %s is gone", c.Info.Name))
			}
		case <-tick.C:
			f.addAgain()
		case <-ctx.Done():
			return
		}
	}
}

// A follower adds the hosts of agents to a running job.
type follower struct {
	agents   *Agents
	files    *hostworker.Files
	returned map[string]time.Time // since when agents are there whose hosts are in host_worker
}

// joined takes note of an agent that has dialled in.
func (f *follower) joined(i dialin.Info) {
	log, h := f.agents.cfg.Logger, i.Host()
	switch {
	case f.agents.wasExpected(h):
	case f.files == nil:
		log.Info(fmt.Sprintf("agent %s has dialled in; the hosts of this job are fixed: it takes part if a host of that name is lost", i.Name))
	case i.Runs == dialin.RunsServers:
		log.Info(fmt.Sprintf("agent %s has dialled in; it runs servers only: launch ctl add-server %s", i.Name, i.Name))
	case slices.ContainsFunc(f.files.Hosts(), h.Same):
		f.returned[i.Name] = time.Now()
	default:
		log.Info(fmt.Sprintf("agent %s has dialled in; its host is added to the job", i.Name))
		f.add(h)
	}
}

func (f *follower) add(h hosts.Host) {
	if err := f.files.Edit(hostworker.Change{Added: []hosts.Host{h}}); err != nil {
		f.agents.cfg.Logger.Error(err.Error())
	}
}

// addAgain adds hosts that are in host_worker, and on which nothing of the job is though their agents have been back for a while.
func (f *follower) addAgain() {
	for name, since := range f.returned {
		switch {
		case !f.agents.idle(name):
			delete(f.returned, name)
		case time.Since(since) >= returnTime:
			delete(f.returned, name)
			f.files.Repeat(hosts.Host{Name: name})
		}
	}
}
