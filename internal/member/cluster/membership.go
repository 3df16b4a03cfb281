package cluster

import (
	"sync"
	"sync/atomic"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A membership is what a node knows of the membership: the newest one of those that came. An older
// one that comes late is not believed.
type membership struct {
	// pending is the pending change of membership, and position the node's place in it. They
	// change under mu, and are read for every request without it.
	pending  atomic.Uint64
	position atomic.Pointer[position]

	// mu guards all below.
	mu         sync.Mutex
	membership wire.Membership
	// member says that the node is a member of the generation, not only joining.
	member bool
	// changed is closed, and another one made, when the membership has changed.
	changed chan struct{}
	// stopping is closed when the job stops with a checkpoint.
	stopping chan struct{}
}

// A position is a node's generation and rank in one membership.
type position struct {
	generation Generation
	rank       Rank
}

func newMembership() *membership {
	k := &membership{changed: make(chan struct{}), stopping: make(chan struct{})}
	k.position.Store(&position{})
	return k
}

// get returns the membership. Its slices are shared and must not be changed.
func (k *membership) get() wire.Membership {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.membership
}

// next returns a channel that is closed when the membership changes.
func (k *membership) next() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

// joining reports whether the node has joined a running job and is no member yet.
func (k *membership) joining() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.membership.Phase == wire.PhaseRunning && !k.member
}

// update replaces the membership by a newer one, and reports whether it is that. id is the node's.
// A membership of a job that is forming is taken also if it is of the same revision, for it says
// anew whom the job waits for.
func (k *membership) update(m *wire.Membership, id NodeID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	grown := m.Revision > k.membership.Revision
	if !grown && m.Phase != wire.PhaseForming {
		return false
	}
	if m.Stopping && !k.membership.Stopping {
		close(k.stopping)
	}
	k.membership = *m
	k.pending.Store(m.Change)
	now := &position{Generation(m.Generation), k.position.Load().rank}
	for _, x := range m.Nodes {
		if x.Node != uint64(id) || m.Phase == wire.PhaseForming {
			continue
		}
		// One that joins has the rank behind all workers, as if it were the next one.
		now.rank, k.member = Rank(x.Rank), x.Counts()
		if !k.member {
			now.rank = Rank(m.Workers)
		}
	}
	k.position.Store(now)
	if grown {
		close(k.changed)
		k.changed = make(chan struct{})
	}
	return true
}

// rank is the node's rank if it is a member.
func (k *membership) rank() (rank Rank, member bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.position.Load().rank, k.member
}
