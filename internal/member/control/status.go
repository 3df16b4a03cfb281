package control

import (
	"fmt"
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// Status is the answer to OpStatus.
type Status struct {
	Error string `json:"error,omitempty"`
	Job   string `json:"job"`
	Phase string `json:"phase"`
	// Reason is why the job failed, for people.
	Reason     string   `json:"reason,omitempty"`
	Failure    *Failure `json:"failure,omitempty"`
	Generation uint64   `json:"generation"`
	Revision   uint64   `json:"revision"`
	Workers    int      `json:"workers"` // that count
	Elastic    bool     `json:"elastic"`
	Change     *Change  `json:"change,omitempty"` // the pending one
	Waiting    []string `json:"waiting,omitempty"`
	// Journal says for how long the scheduler has not been able to write its journal, and why;
	// empty: it can. Until then it answers no node.
	Journal   string        `json:"journal,omitempty"`
	Warnings  []string      `json:"warnings,omitempty"` // what a person should look at
	Division  wire.Division `json:"division"`
	Nodes     []Node        `json:"nodes"`
	LeftOut   int           `json:"nodes_left_out,omitempty"` // nodes that did not fit
	Hosts     []Host        `json:"hosts"`
	LastEvent uint64        `json:"last_event"`
	// Adaptation is the newest one of rank 0; nil: the job does not adapt.
	Adaptation *Adaptation `json:"adaptation,omitempty"`
	// Scale is the newest number of workers that was asked for; nil: none was, or hosts were added or
	// removed since.
	Scale *Scale `json:"scale,omitempty"`

	// Of jobs whose shards have backups.
	Placement uint64         `json:"placement,omitempty"` // goes up when shards move
	Servers   []ServerStatus `json:"servers,omitempty"`
}

// Change is a pending change and what it waits for.
type Change struct {
	Number   uint64   `json:"number"`
	Causes   []string `json:"causes"`
	Seconds  float64  `json:"seconds"`
	WaitsFor string   `json:"waits_for"`
}

// The states of a node. Those of NodeCounts and NodeLeaving count.
const (
	NodeCounts  = "counts"
	NodeJoining = "joining"
	NodeReady   = "ready"
	NodeLeaving = "leaving"
	NodeRemoved = "removed"
)

var nodeStates = []string{NodeCounts, NodeJoining, NodeReady, NodeLeaving, NodeRemoved}

// Node is one server or worker.
type Node struct {
	Node uint64 `json:"node"`
	Role string `json:"role"`
	Rank int32  `json:"rank"` // -1: none yet
	Host string `json:"host"`
	Addr string `json:"addr,omitempty"`
	PID  uint32 `json:"pid"`
	// Process is the number that the launcher or the scheduler gave it; 0: it was started by hand.
	Process     uint32 `json:"process,omitempty"`
	State       string `json:"state"`
	Step        uint64 `json:"step"`
	Epoch       uint64 `json:"epoch"`
	HeardMillis int64  `json:"heard_ms"` // since it was heard of
}

// Host is one host of workers.
type Host struct {
	Host   string `json:"host"`
	Status string `json:"status"` // AddQueued to HostFailed
	Reason string `json:"reason,omitempty"`
}

// The statuses of the rank of a server.
const (
	RankHere    = "HERE"
	RankComing  = "COMING"
	RankRemoved = "REMOVED"
	RankLost    = "LOST"
)

// ServerStatus is one rank of a server, in jobs whose shards have backups.
type ServerStatus struct {
	Rank    uint32 `json:"rank"`
	Host    string `json:"host,omitempty"`
	Status  string `json:"status"`  // RankHere to RankLost
	Shards  int    `json:"shards"`  // that workers use here
	Values  uint64 `json:"values"`  // of those
	Backups int    `json:"backups"` // shards that it keeps for others
	Filling int    `json:"filling"` // of these, how many it is being given
}

func (s *Status) refusal() (string, bool) { return s.Error, false }

func (s *Status) check() error {
	if err := checkPhase("status", s.Phase); err != nil {
		return err
	}
	if s.Failure != nil {
		if err := s.Failure.check("status"); err != nil {
			return err
		}
	}
	switch g := s.Change; {
	case s.Workers < 0 || s.LeftOut < 0:
		return fmt.Errorf("control: status: %d workers, %d nodes left out: want none below 0", s.Workers, s.LeftOut)
	case g != nil && (g.Seconds < 0 || g.Seconds > math.MaxInt32):
		return fmt.Errorf("control: status: change %d is pending for %g seconds, want 0 to %d", g.Number, g.Seconds, math.MaxInt32)
	}
	if s.Adaptation != nil {
		if err := s.Adaptation.check("status"); err != nil {
			return err
		}
	}
	if s.Scale != nil {
		if err := s.Scale.check(); err != nil {
			return err
		}
	}
	for _, n := range s.Nodes {
		switch {
		case n.Role != Worker && n.Role != Server:
			return fmt.Errorf("control: status: node %d: role %q: want worker or server", n.Node, n.Role)
		case !slices.Contains(nodeStates, n.State):
			return fmt.Errorf("control: status: node %d: state %q is not known", n.Node, n.State)
		case n.Rank < -1 || n.Rank > maxRank:
			return fmt.Errorf("control: status: node %d: rank %d, want -1 to %d", n.Node, n.Rank, maxRank)
		}
	}
	for _, h := range s.Hosts {
		if !slices.Contains(hostActions[:5], h.Status) {
			return fmt.Errorf("control: status: host %s: status %q is not known", h.Host, h.Status)
		}
	}
	for _, x := range s.Servers {
		switch {
		case !slices.Contains([]string{RankHere, RankComing, RankRemoved, RankLost}, x.Status):
			return fmt.Errorf("control: status: server %d: status %q is not known", x.Rank, x.Status)
		case x.Rank > maxRank || x.Shards < 0 || x.Backups < 0 || x.Filling < 0:
			return fmt.Errorf("control: status: server %d: %d shards, %d backups, %d still coming: one is out of range", x.Rank, x.Shards, x.Backups, x.Filling)
		}
	}
	return nil
}
