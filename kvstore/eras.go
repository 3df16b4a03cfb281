package kvstore

import (
	"fmt"
	"sync"
)

// An eras names what all workers do together, such as the third barrier since the last change of
// the membership.
//
// The names count from the change, since a worker that has joined does not know how often the
// others have met before. An era has the number of the change that began it, not a generation: that
// may go up again, when a worker is lost, before all workers have seen it.
type eras struct {
	mu     sync.Mutex // guards the fields below
	change uint64
	counts [meetings]uint64
}

// A meeting is a kind of what workers do together.
type meeting int

const (
	barrierName meeting = iota
	loadName
	broadcastName
	meetings
)

func (m meeting) String() string { return [...]string{"barrier", "load", "broadcast"}[m] }

// begin begins an era.
func (e *eras) begin(change uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.change, e.counts = change, [meetings]uint64{}
}

// next is the name of the next meeting of a kind. All workers that count get the same one, because
// they call the same in the same order.
func (e *eras) next(m meeting) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts[m]++
	return fmt.Sprintf("%v/%d/%d", m, e.change, e.counts[m])
}
