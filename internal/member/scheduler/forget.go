package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// maxGone is how many nodes that have left or were lost are remembered, and how many hosts that
// were removed or have failed: the newest. A node that comes back after that is told only that it
// is no member.
const maxGone = 500

// node returns the node of an ID; nil if none registered under it, or it is forgotten.
func (c *Core) node(id uint64) *node {
	i, found := slices.BinarySearchFunc(c.nodes, id, func(n *node, id uint64) int { return cmp.Compare(n.Node, id) })
	if !found {
		return nil
	}
	return c.nodes[i]
}

// lastNode is the highest ID that was given; 0: none was. Its node is never forgotten, for it is
// the newest.
func (c *Core) lastNode() uint64 {
	if len(c.nodes) == 0 {
		return 0
	}
	return c.nodes[len(c.nodes)-1].Node
}

// who names a node for people.
func (c *Core) who(id uint64) string {
	if n := c.node(id); n != nil {
		return n.String()
	}
	return fmt.Sprintf("node %d", id)
}

// forgetNodes forgets the nodes that are gone but the newest, and those that are still needed: of
// the division, of loss reports, and the last server of each rank.
func (c *Core) forgetNodes() {
	var gone []*node
	for _, n := range c.nodes {
		if n.state == left || n.state == lost {
			gone = append(gone, n)
		}
	}
	if len(gone) <= maxGone {
		return
	}
	needed := make(map[uint64]bool)
	for _, id := range c.shares {
		needed[id] = true
	}
	for id := range c.lossReports {
		needed[id] = true
	}
	for rank := range c.ranks {
		if n := c.newestServer(uint32(rank)); n != nil {
			needed[n.Node] = true
		}
	}
	slices.SortStableFunc(gone, func(a, b *node) int { return a.heard.Compare(b.heard) })
	forget := make(map[*node]bool)
	for _, n := range gone[:len(gone)-maxGone] {
		if !needed[n.Node] {
			forget[n] = true
			c.out.Records = append(c.out.Records, Record{Key: nodeKey(n.Node)})
		}
	}
	c.nodes = slices.DeleteFunc(c.nodes, func(n *node) bool { return forget[n] })
	c.dirty.nodes = slices.DeleteFunc(c.dirty.nodes, func(n *node) bool { return forget[n] })
}

func nodeKey(id uint64) string { return fmt.Sprintf("node/%08d", id) }

// forgetHosts forgets the hosts that were removed or have failed but the newest. A host is never
// forgotten on which a worker lives.
func (c *Core) forgetHosts() {
	if len(c.hosts) <= maxGone {
		return
	}
	hasWorkers := make(map[string]bool)
	for _, n := range c.nodes {
		if n.state == living && n.Role == wire.RoleWorker {
			hasWorkers[n.Host] = true
		}
	}
	var gone []string
	for name, h := range c.hosts {
		if (h.status == control.Removed || h.status == control.HostFailed) && !hasWorkers[name] {
			gone = append(gone, name)
		}
	}
	if len(gone) <= maxGone {
		return
	}
	slices.SortFunc(gone, func(a, b string) int {
		return cmp.Or(cmp.Compare(c.hosts[a].since, c.hosts[b].since), strings.Compare(a, b))
	})
	for _, name := range gone[:len(gone)-maxGone] {
		delete(c.hosts, name)
		c.out.Records = append(c.out.Records, Record{Key: "host/" + name})
	}
}
