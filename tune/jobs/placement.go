package jobs

import (
	"fmt"
	"slices"
	"strings"
)

// NodeSlots is a node with the number of replicas that it runs at a time.
type NodeSlots struct {
	Node  string
	Slots int
}

// A Placement is how many replicas a trial has on which nodes. No node is in it twice, and none
// with no replica.
type Placement []NodeReplicas

// NodeReplicas is how many replicas run on a node.
type NodeReplicas struct {
	Node     string
	Replicas int
}

// Replicas is how many there are on all nodes together.
func (p Placement) Replicas() (n int) {
	for _, x := range p {
		n += x.Replicas
	}
	return n
}

// On is how many replicas are on a node.
func (p Placement) On(node string) int {
	for _, x := range p {
		if x.Node == node {
			return x.Replicas
		}
	}
	return 0
}

// Most is the largest number of replicas on one node.
func (p Placement) Most() (most int) {
	for _, x := range p {
		most = max(most, x.Replicas)
	}
	return most
}

// Add returns the placement with n more replicas on a node. It may change p's array, as append
// does.
func (p Placement) Add(node string, n int) Placement {
	for i := range p {
		if p[i].Node == node {
			p[i].Replicas += n
			return p
		}
	}
	return append(p, NodeReplicas{node, n})
}

// Equal says whether both have the same replicas on the same nodes, in whatever order.
func (p Placement) Equal(q Placement) bool {
	return len(p) == len(q) && !slices.ContainsFunc(p, func(x NodeReplicas) bool { return q.On(x.Node) != x.Replicas })
}

// Location is the placement as the place of a trial in tables and logs: "d1 x2, d2".
func (p Placement) Location() string {
	var b []byte
	for i, x := range p {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, x.Node...)
		if x.Replicas > 1 {
			b = fmt.Appendf(b, " x%d", x.Replicas)
		}
	}
	return string(b)
}

// String is "d1=2,d2=1", or "none".
func (p Placement) String() string {
	if len(p) == 0 {
		return "none"
	}
	all := make([]string, len(p))
	for i, x := range p {
		all[i] = fmt.Sprintf("%s=%d", x.Node, x.Replicas)
	}
	return strings.Join(all, ",")
}
