package cluster

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Server returns the Caller to the server of a rank and the server's address. The node owns the
// Caller: it is shared, and Close and the end of the job close it.
func (n *Node) Server(rank Rank) (transport.Caller, string, error) {
	c, err := n.peers.server(rank, n.members.position.Load(), n.members.server)
	if err != nil {
		return nil, "", err
	}
	return c, c.addr, nil
}

// Worker returns the Caller to a worker of this host that takes part in sums within it, as Server
// does.
func (n *Node) Worker(node NodeID) (transport.Caller, error) {
	c, err := n.peers.worker(func() (string, error) { return n.members.hostSums(node) })
	if err != nil {
		return nil, err
	}
	return c, nil
}

// server is the address of the server of a rank.
func (k *membership) server(rank Rank) (addr string, err error) {
	m := k.get()
	for i := range m.Nodes {
		if x := &m.Nodes[i]; x.Role == wire.RoleServer && x.Rank == int32(rank) {
			return x.Addr, nil
		}
	}
	return "", fmt.Errorf("cluster: %w: rank %d in generation %d", ErrNoServer, rank, m.Generation)
}

// hostSums is the address at which a worker takes part in sums within its host.
func (k *membership) hostSums(node NodeID) (addr string, err error) {
	m := k.get()
	for i := range m.Nodes {
		if addr, _ := m.Nodes[i].HostSums(); m.Nodes[i].Node == uint64(node) && addr != "" {
			return addr, nil
		}
	}
	return "", fmt.Errorf("cluster: node %d takes no part in sums within a host in generation %d", node, m.Generation)
}
