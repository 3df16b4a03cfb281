package run

import (
	"context"
	"net/netip"
	"os"
	"sync"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/jobcontrol"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/method"
)

// remoteState is where a scheduler on another host keeps its state.
const remoteState = "~/.paragon/state"

// setElastic sets how the job may change. dir is a folder of this job. What it returns gives the
// files up.
func (p *planner) setElastic(cfg *job.Config, dir string) (done func(), err error) {
	o, m := p.o, p.method
	e := &cfg.Elastic
	e.Control = jobcontrol.Carry
	if e.State = o.Survival.State; e.State == "" && e.Changes() {
		if e.State = dir; o.SchedulerHost != nil {
			e.State = remoteState
		}
	}
	e.Command = m.Command
	if f, ok := m.(method.Follower); ok {
		e.There = func() (workers, servers []hosts.Host) { h := f.There(); return h.Workers, h.Servers }
	}
	if !m.Remote() {
		e.Here = isHere
	}
	if e.Enabled && !o.Trial.Elastic {
		if e.Files, err = hostworker.Open(p.env.Folder, hostworker.Places(cfg.Workers)); err != nil {
			return nil, err
		}
	}
	stop := follow(m, e.Files)
	return func() {
		stop()
		if e.Files != nil {
			e.Files.Close()
		}
	}, nil
}

// follow takes in the hosts that come by themselves while the job runs, until what it returns is
// called.
func follow(m method.Method, files *hostworker.Files) (stop func()) {
	f, ok := m.(method.Follower)
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { f.Follow(ctx, files) })
	return func() { cancel(); following.Wait() }
}

// isHere reports whether a host is this machine: its name, or a loopback address or name.
func isHere(h hosts.Host) bool {
	if h.User != "" || h.Port != 0 {
		return false
	}
	if a, err := netip.ParseAddr(h.Name); err == nil {
		return a.IsLoopback()
	}
	name, err := os.Hostname()
	return h.Name == "localhost" || err == nil && h.Name == name
}
