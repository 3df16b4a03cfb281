package kvstore

import (
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// placed is a member of a job with these nodes.
type placed struct {
	member
	nodes []wire.Member
}

func (p placed) Membership() wire.Membership { return wire.Membership{Nodes: p.nodes} }

func TestTopologyCountsHosts(t *testing.T) {
	on := func(role uint8, host string, state uint8) wire.Member {
		return wire.Member{Role: role, Host: host, State: state}
	}
	const w, s = wire.RoleWorker, wire.RoleServer
	for _, c := range []struct {
		name  string
		nodes []wire.Member
		want  Topology
	}{
		{"within the process", nil, Topology{1, 1, true}},
		{"one host", []wire.Member{on(s, "a", 0), on(w, "a", 0), on(w, "a", 0)}, Topology{1, 1, true}},
		{"two hosts, one of a worker that joins", []wire.Member{on(s, "a", 0), on(s, "b", 0), on(w, "a", 0), on(w, "b", 0), on(w, "c", wire.MemberJoining)}, Topology{2, 2, true}},
		{"servers apart", []wire.Member{on(s, "a", 0), on(s, "c", 0), on(w, "a", 0), on(w, "b", wire.MemberLeaving)}, Topology{2, 2, false}},
	} {
		if got := (&membership{node: placed{nodes: c.nodes}}).Topology(); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}
