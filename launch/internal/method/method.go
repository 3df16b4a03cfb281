// Package method has the start methods of launch, the ways to start processes on the hosts of a
// job: on the launching machine, over ssh, or through agents that dial in.
//
// A start method knows which hosts there are and connects to each; what runs there is up to the job
// (package job). On every host an agent of ours (package internal/hosts/agent) starts the
// processes, so that output, signals, exit codes and the end of a lost host are the same in all of
// them.
package method

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
	"github.com/paragon-train/paragon/launch/internal/job"
)

// A Method is one way to start processes on the hosts of a job. Its methods may be called together.
type Method interface {
	// Remote reports whether processes run on other hosts than this machine; if not there is
	// nothing to connect to.
	Remote() bool
	// Hosts are those on which the job may run. Hosts that come by themselves are waited for
	// until ctx ends; the error then says whom the job waits for, and comes with the hosts that
	// are there.
	Hosts(ctx context.Context) (Hosts, error)
	// Dial connects to a host. ctx bounds the attempt, not the life of the Machine.
	Dial(ctx context.Context, h hosts.Host) (Machine, error)
	// Dir is the job's folder on its hosts; empty: that of the agent.
	Dir() string
	// Command says how a host is reached, for the log.
	Command(h hosts.Host) string
	// Close gives up what the method itself holds, after the last job; Machines are closed
	// before.
	Close() error
}

// A Machine is a host that is connected.
type Machine interface {
	job.Machine
	// Ask finds out about the host (package preflight).
	Ask(ctx context.Context, q agent.Question) (agent.Answer, error)
}

// A Copier is a Method that copies the job's folder to its hosts.
type Copier interface {
	// SyncDir is the folder there; empty: nothing is copied.
	SyncDir() string
	// Sync copies the job's folder.
	Sync(ctx context.Context, m Machine) error
	// Copy copies a file of this machine into a folder of a host, in the same way.
	Copy(ctx context.Context, m Machine, file, dir string) error
}

// A Follower is a Method whose hosts come by themselves, also while the job runs.
type Follower interface {
	// There returns the hosts that are there now.
	There() Hosts
	// Follow puts hosts that come into host_worker, as an operator does, until ctx ends. The
	// job then starts workers there. Without files (nil) the job's hosts are fixed: a host that
	// comes waits idle, and takes the place of one of its name that is lost.
	Follow(ctx context.Context, files *hostworker.Files)
}

// An Abandoner is a Method whose hosts may wait for another launcher that goes on with the job.
type Abandoner interface {
	// Abandon is Close for a launcher that ends before the job does.
	Abandon() error
}

// Hosts are the hosts of a job in the order that gives the ranks.
type Hosts struct {
	// Workers are the hosts that may run workers.
	Workers []hosts.Host

	// Servers are the hosts that may run servers.
	Servers []hosts.Host
}

// Any are hosts that may run workers and servers alike.
func Any(all []hosts.Host) Hosts { return Hosts{Workers: all, Servers: all} }

// Place says where workers and servers run; see hosts.Place.
func (h Hosts) Place(workers, servers int) (hosts.Placement, error) {
	if len(h.Workers) == 0 {
		return hosts.Placement{}, fmt.Errorf("place %d workers: no host runs workers", workers)
	}
	w, err := hosts.Place(h.Workers, workers, 0)
	if err != nil {
		return hosts.Placement{}, err
	}
	if len(h.Servers) == 0 {
		return hosts.Placement{}, fmt.Errorf("place %d servers: no host runs servers", servers)
	}
	s, err := hosts.Place(h.Servers, 0, servers)
	return hosts.Placement{Workers: w.Workers, Servers: s.Servers}, err
}

// All are the hosts, each once.
func (h Hosts) All() []hosts.Host {
	var all []hosts.Host
	seen := make(map[string]bool)
	for _, host := range append(h.Workers[:len(h.Workers):len(h.Workers)], h.Servers...) {
		if !seen[host.String()] {
			seen[host.String()] = true
			all = append(all, host)
		}
	}
	return all
}
