package kvstore

import "github.com/paragon-train/paragon/internal/store/wire"

// A Topology says where the nodes of a job run.
type Topology struct {
	// WorkerHosts is the number of hosts with workers of the membership, at least 1.
	WorkerHosts int
	// Servers is the number of servers that are not down, at least 1.
	Servers int
	// Together says that each server runs on a host with workers.
	Together bool
}

// Topology is that of the newest membership that this worker knows of. A store
// within the process is one host with one server.
func (m *membership) Topology() Topology {
	now := m.node.Membership()
	hosts := map[string]bool{}
	for i := range now.Nodes {
		if n := &now.Nodes[i]; n.Role == wire.RoleWorker && n.Counts() {
			hosts[n.Host] = true
		}
	}
	t := Topology{WorkerHosts: max(1, len(hosts)), Together: true}
	for i := range now.Nodes {
		if n := &now.Nodes[i]; n.Role == wire.RoleServer && n.Counts() {
			t.Servers++
			t.Together = t.Together && hosts[n.Host]
		}
	}
	if t.Servers == 0 {
		t.Servers, t.Together = 1, true
	}
	return t
}
