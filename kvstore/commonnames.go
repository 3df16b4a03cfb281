package kvstore

import (
	"fmt"
	"sync"
)

// A commonNames names the calls that all workers make together, such as the third barrier since the
// last change of the membership, so that all give the same call the same name.
//
// The names count from the change, since a worker that has joined does not know how often the
// others have called before. They have the number of the change, not the generation: that may go up
// again, when a worker is lost, before all workers have seen it.
type commonNames struct {
	// mu guards the fields below.
	mu     sync.Mutex
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

// begin counts calls from a change on.
func (n *commonNames) begin(change uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.change, n.counts = change, [commonCalls]uint64{}
}

// next is the name of the next call. All workers that count get the same one.
func (n *commonNames) next(c commonCall) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counts[c]++
	return fmt.Sprintf("%v/%d/%d", c, n.change, n.counts[c])
}
