package elastic

import (
	"slices"

	"github.com/paragon-train/paragon/tune/internal/slots"
	"github.com/paragon-train/paragon/tune/jobs"
)

// units are the units of nodes that a job has taken, one for each replica, and which worker holds
// which. A unit without a worker is for one that is about to start, or was never needed.
//
// The Job's mutex guards it.
type units struct {
	holding *slots.Holding
	// unit is what one replica needs.
	unit slots.Request
	// holders has the number of the worker that holds a unit.
	holders map[*slots.Unit]int
	// freed is closed when next a unit may be free for a worker that waits for one.
	freed chan struct{}
}

// newUnits holds none yet.
func newUnits(alloc *slots.Allocator, unit slots.Request) units {
	return units{holding: alloc.Open(), unit: unit, holders: make(map[*slots.Unit]int), freed: make(chan struct{})}
}

// release gives all units back.
func (u *units) release() { u.holding.Release() }

// held is how many units there are of each node.
func (u *units) held() jobs.Placement { return placementOf(u.holding.Units()) }

// used is how many units of each node workers hold; held while no worker holds any.
func (u *units) used() jobs.Placement {
	all := slices.DeleteFunc(u.holding.Units(), func(x *slots.Unit) bool { _, used := u.holders[x]; return !used })
	if len(all) == 0 {
		return u.held()
	}
	return placementOf(all)
}

// placementOf counts units by node.
func placementOf(all []*slots.Unit) (p jobs.Placement) {
	for _, x := range all {
		p = p.Add(x.Node, 1)
	}
	return p
}

// exchange gives back units that are not needed and takes those that are wanted and free. It says
// whether it did either. A unit is needed while a worker holds it, and while the launcher may start
// one for it, since that was commanded.
func (u *units) exchange(want, commanded jobs.Placement) (changed bool) {
	all := u.holding.Units()
	for x := range u.holders {
		if !slices.Contains(all, x) {
			// Its node was lost.
			delete(u.holders, x)
		}
	}
	have := u.held()
	for _, x := range all {
		i := slices.IndexFunc(have, func(y jobs.NodeReplicas) bool { return y.Node == x.Node })
		if _, used := u.holders[x]; !used && have[i].Replicas > max(want.On(x.Node), commanded.On(x.Node)) {
			have[i].Replicas--
			u.holding.GiveBack(x, u.unit)
			changed = true
		}
	}
	for _, x := range want {
		if lack := x.Replicas - have.On(x.Node); lack > 0 && len(u.holding.Take(x.Node, u.unit, lack)) > 0 {
			changed = true
			u.tell()
		}
	}
	return changed
}

// hold gives a worker a unit of a node that no other worker holds; nil: there is none now, and may
// be one when freed is closed.
func (u *units) hold(number int, node string) (unit *slots.Unit, freed <-chan struct{}) {
	for _, x := range u.holding.Units() {
		if _, used := u.holders[x]; !used && x.Node == node {
			u.holders[x] = number
			return x, nil
		}
	}
	return nil, u.freed
}

// left takes note that the worker that held a unit has ended.
func (u *units) left(unit *slots.Unit) {
	delete(u.holders, unit)
	u.tell()
}

// tell lets workers that wait look again.
func (u *units) tell() {
	close(u.freed)
	u.freed = make(chan struct{})
}
