package slots

import (
	"fmt"
	"slices"
)

// A Unit is what one worker has of a node.
type Unit struct {
	Node string
	CPUs []int
	GPUs []string
}

// A Holding is what one elastic trial has: units that it takes and gives back one by one while it
// runs. Nobody else has a unit's processors and GPUs before it is given back.
type Holding struct {
	of *Allocator
	// grant names the owner at the nodes. Its Parts stay empty.
	grant *Grant
	units []*Unit
}

// Open makes a Holding of nothing. Release ends it.
func (a *Allocator) Open() *Holding {
	h := &Holding{of: a, grant: &Grant{of: a, lost: make(chan struct{})}}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holdings[h] = true
	return h
}

// Take takes up to n units of a node, as many as are free, and returns them. Hosts of the request
// does not count.
func (h *Holding) Take(node string, r Request, n int) (taken []*Unit) {
	a := h.of
	a.mu.Lock()
	defer a.mu.Unlock()
	x := a.find(node)
	if x == nil || x.draining || !a.holdings[h] {
		return nil
	}
	for len(taken) < n && x.room(r) {
		before := x.workers[h.grant]
		p := x.take(h.grant, r)
		x.workers[h.grant] = before + r.Workers
		taken = append(taken, &Unit{Node: node, CPUs: p.CPUs, GPUs: p.GPUs})
	}
	h.units = append(h.units, taken...)
	return taken
}

// GiveBack gives a unit back: its worker has left. A unit that is no longer held, as one of a node
// that was lost, is none.
func (h *Holding) GiveBack(u *Unit, r Request) {
	a := h.of
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.Index(h.units, u)
	if i < 0 {
		return
	}
	h.units = slices.Delete(h.units, i, i+1)
	if x := a.find(u.Node); x != nil {
		x.giveBack(h.grant, u, r)
		a.drop(x)
	}
	a.serve()
	a.tell()
}

// Units are those that are held, in the order in which they were taken.
func (h *Holding) Units() []*Unit {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	return slices.Clone(h.units)
}

// Release gives all of it back. It may be called again.
func (h *Holding) Release() {
	a := h.of
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.holdings[h] {
		return
	}
	delete(a.holdings, h)
	h.units = nil
	for _, n := range slices.Clone(a.nodes) {
		n.free(h.grant)
		a.drop(n)
	}
	a.serve()
	a.tell()
}

// Changed is closed when next something becomes free, or a node comes or goes. Ask for it before
// looking.
func (a *Allocator) Changed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

// tell closes the channel of Changed. a.mu is held.
func (a *Allocator) tell() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// room says whether the request fits now.
func (n *node) room(r Request) bool {
	return !n.draining && (n.Slots == 0 || n.Slots-n.busy() >= r.Workers) && left(n.cpuOf) >= r.CPUs && left(n.gpuOf) >= r.GPUs
}

// giveBack takes a unit's processors, GPUs and slots from its holding.
func (n *node) giveBack(g *Grant, u *Unit, r Request) {
	if n.workers[g] -= r.Workers; n.workers[g] <= 0 {
		delete(n.workers, g)
	}
	for _, c := range u.CPUs {
		if i := slices.Index(n.CPUs, c); i >= 0 && n.cpuOf[i] == g {
			n.cpuOf[i] = nil
		}
	}
	for _, c := range u.GPUs {
		if i := slices.Index(n.GPUs, c); i >= 0 && n.gpuOf[i] == g {
			n.gpuOf[i] = nil
		}
	}
}

// String is for messages.
func (u *Unit) String() string {
	return fmt.Sprintf("%s with CPUs %v and GPUs %v", u.Node, u.CPUs, u.GPUs)
}
