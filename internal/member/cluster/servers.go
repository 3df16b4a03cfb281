package cluster

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Server returns the Caller to the server of a rank and the server's address. The node owns the
// Caller: it is shared, and Close and the end of the job close it.
func (n *Node) Server(rank Rank) (transport.Caller, string, error) {
	c, addr, err := n.peers.to(Server, func() (string, error) {
		m := n.members.get()
		for i := range m.Nodes {
			if x := &m.Nodes[i]; x.Role == wire.RoleServer && x.Rank == int32(rank) {
				return x.Addr, nil
			}
		}
		return "", fmt.Errorf("cluster: %w: rank %d in generation %d", ErrNoServer, rank, m.Generation)
	})
	if err != nil {
		return nil, "", err
	}
	return c, addr, nil
}

// Worker returns the Caller to a worker of this host that takes part in sums within it, as Server
// does.
func (n *Node) Worker(node NodeID) (transport.Caller, error) {
	c, _, err := n.peers.to(Worker, func() (string, error) {
		m := n.members.get()
		for i := range m.Nodes {
			if addr, _ := m.Nodes[i].HostSums(); m.Nodes[i].Node == uint64(node) && addr != "" {
				return addr, nil
			}
		}
		return "", fmt.Errorf("cluster: node %d takes no part in sums within a host in generation %d", node, m.Generation)
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}
