package kvstore

import (
	"fmt"
	"sync"
)

// An eras names calls that all workers make together, such as the third barrier since the last
// change of the membership.
//
// The names count from the change, since a worker that has joined does not know how often the
// others have called before. An era has the number of the change that began it, not a generation:
// that may go up again, when a worker is lost, before all workers have seen it.
type eras struct {
	mu     sync.Mutex // guards the fields below
	change uint64
	counts [commonCalls]uint64
}

// A commonCall is a call that all workers make, in the same order.
type commonCall int

const (
	barrierName commonCall = iota
	loadName
	broadcastName
	commonCalls
)

func (c commonCall) String() string { return [...]string{"barrier", "load", "broadcast"}[c] }

// begin begins an era.
func (e *eras) begin(change uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.change, e.counts = change, [commonCalls]uint64{}
}

// next is the name of the next call. All workers that count get the same one.
func (e *eras) next(c commonCall) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts[c]++
	return fmt.Sprintf("%v/%d/%d", c, e.change, e.counts[c])
}
