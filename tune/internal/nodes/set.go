package nodes

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/tune/internal/slots"
	"github.com/paragon-train/paragon/tune/jobs"
)

// LocalName is what this machine is called as a node.
const LocalName = "local"

// A Set is the nodes of one search. Its methods may be called together.
type Set struct {
	// Alloc gives out what the nodes have.
	Alloc   *slots.Allocator
	changed func(cause string)
	// hosts is nil if trials do not run on hosts.
	hosts *hostSet
	// tasks is nil if trials do not run on a cluster.
	tasks *Tasks
}

// Find asks the hosts what they have, and makes a node of each. Hosts that cannot be used are set
// aside; it is an error if none can.
func Find(ctx context.Context, cfg Config) (*Set, error) {
	if cfg.SlowestProbe == 0 {
		cfg.SlowestProbe = slowestProbe
	}
	all, err := slots.New()
	if err != nil {
		return nil, err
	}
	s := &Set{Alloc: all, changed: cfg.Changed}
	switch {
	case cfg.Cluster != nil:
		s.tasks, err = newTasks(cfg, all)
	case cfg.HostFile != "":
		s.hosts, err = findHosts(ctx, cfg, all)
	default:
		err = all.Add(localNode(cfg.Logger))
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Tasks starts tasks on the nodes of a cluster; nil: the nodes are no cluster's.
func (s *Set) Tasks() *Tasks { return s.tasks }

// AreHosts says whether the nodes are hosts, which can be added and removed.
func (s *Set) AreHosts() bool { return s.hosts != nil }

// Remote reaches the hosts; nil: the nodes are none.
func (s *Set) Remote() *ssh.Method {
	if s.hosts == nil {
		return nil
	}
	return s.hosts.remote
}

// FitsEver returns an error if no trial with this request can ever run. The error names the hosts
// that are set aside.
func (s *Set) FitsEver(r slots.Request) error {
	err := s.Alloc.Fits(r)
	if away := s.awayText(); err != nil && away != "" {
		err = fmt.Errorf("%w; set aside: %s", err, away)
	}
	return err
}

// Room is how many trials with this request can run at once, at least 1.
func (s *Set) Room(r slots.Request) int {
	// parts is how many parts of a trial fit on the nodes, if each host of the trial runs one.
	parts := 0
	for _, u := range s.Alloc.Usage() {
		if fit := u.Fit(r); !u.Leaving {
			parts += min(fit, math.MaxInt32)
		}
	}
	return max(parts/max(r.Hosts, 1), 1)
}

// maxReplicas bounds the replicas on a node without a number of slots.
const maxReplicas = 1 << 16

// Slots are the nodes on which replicas of elastic trials can run, and how many at a time on each.
// unit is what one replica needs.
func (s *Set) Slots(unit slots.Request) (all []jobs.NodeSlots) {
	for _, u := range s.Alloc.Usage() {
		if n := u.Fit(unit); n > 0 && !u.Leaving {
			all = append(all, jobs.NodeSlots{Node: u.Name, Slots: min(n, maxReplicas)})
		}
	}
	return all
}

// Table shows the nodes: what each has, and how much of it is in use.
func (s *Set) Table() metrics.Table {
	t := metrics.Table{Columns: []string{"node", "CPUs", "in use", "GPUs", "in use", "slots", "in use", "state"}}
	away := s.away()
	why := make(map[string]string)
	for _, h := range away {
		why[h.name] = fmt.Sprintf("set aside: %v", h.why)
	}
	shown := make(map[string]bool)
	for _, u := range s.Alloc.Usage() {
		state := cmp.Or(why[u.Name], "ready")
		if u.Leaving {
			state = "leaving"
		}
		shown[u.Name] = true
		limit := "any"
		if u.Slots > 0 {
			limit = fmt.Sprint(u.Slots)
		}
		t.Row(u.Name, u.CPUs, u.UsedCPUs, u.GPUs, u.UsedGPUs, limit, u.UsedSlots, state)
	}
	// Those that have no node are listed, too.
	for _, h := range away {
		if !shown[h.name] {
			t.Row(h.name, nil, nil, nil, nil, nil, nil, why[h.name])
		}
	}
	return t
}

// away are the hosts that are set aside, in the order in which they were named.
func (s *Set) away() []awayHost {
	if s.hosts == nil {
		return nil
	}
	return s.hosts.away()
}

// awayText names the hosts that are set aside, each with its reason; "": none is.
func (s *Set) awayText() string { return textOf(s.away()) }
