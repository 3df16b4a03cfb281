package kvstore

import "github.com/paragon-train/paragon/internal/store/wire"

// A Topology says where the nodes of a job run.
type Topology struct {
	WorkerHosts int  // hosts with workers of the membership, at least 1
	Servers     int  // those that are down left out, at least 1
	Together    bool // each server runs on a host with workers
}

// Topology implements Store: that of the newest membership that this worker knows of. A store
// within the process is one host with one server.
func (s *store) Topology() Topology {
	m := s.node.Membership()
	hosts := map[string]bool{}
	for i := range m.Nodes {
		if n := &m.Nodes[i]; n.Role == wire.RoleWorker && n.Counts() {
			hosts[n.Host] = true
		}
	}
	t := Topology{WorkerHosts: max(1, len(hosts)), Together: true}
	for i := range m.Nodes {
		if n := &m.Nodes[i]; n.Role == wire.RoleServer && n.Counts() {
			t.Servers++
			t.Together = t.Together && hosts[n.Host]
		}
	}
	if t.Servers == 0 {
		t.Servers, t.Together = 1, true
	}
	return t
}
