package trace

import (
	"fmt"
	"time"
)

// Values of Node.Role.
const (
	Worker = "worker"
	Server = "server"
)

// A Timeline is what the nodes of a job did in one window, as it was collected.
type Timeline struct {
	Job string

	// Steps is how many steps were asked for; 0: a time was.
	Steps int

	// Whole shows all spans, also those outside of the steps that all workers have.
	Whole bool
	// Generator is what made the timeline; empty: paragon launch ctl trace.
	Generator string
	// Workers are the ranks, by node, of workers that may have no spans here.
	Workers map[uint64]int
	Nodes   []Node
}

// A Node is one process of a Timeline.
type Node struct {
	ID   uint64
	Role string
	Rank int
	Host string
	PID  uint32

	// Offset is the scheduler's clock minus the node's. Times of Spans are by the node's.
	Offset time.Duration

	Bound time.Duration // the largest error of Offset

	// Spans are in any order.
	Spans []Span

	// Names has the names of the spans' keys, by index. Names[0] is empty.
	Names []string

	// Dropped is how many spans the node had no room for.
	Dropped uint64

	// Missing says why some or all spans did not come; empty: all came.
	Missing string

	// keys has the indices of Names.
	keys map[string]uint32
}

// SetClock sets Offset and Bound. A Bound below 0, or one of them beyond 73 years, is an error.
func (n *Node) SetClock(offset, bound time.Duration) error {
	if offset < -maxOffset || offset > maxOffset || bound < 0 || bound > maxOffset {
		return fmt.Errorf("trace: the clock of %v is %v from the scheduler's ± %v: want at most ± %v", n, offset, bound, time.Duration(maxOffset))
	}
	n.Offset, n.Bound = offset, bound
	return nil
}

// String names the node as messages do: worker 1 on h2.
func (n *Node) String() string { return fmt.Sprintf("%s %d on %s", n.Role, n.Rank, n.Host) }

// AddChunk adds the spans of a chunk of Encode. Bytes that are no chunk are an error that wraps
// ErrMalformed, and add nothing.
func (n *Node) AddChunk(chunk []byte) error {
	spans, names, err := Decode(chunk)
	if err != nil {
		return err
	}
	if n.keys == nil {
		n.keys = map[string]uint32{"": 0}
		n.Names = []string{""}
	}
	at := make([]uint32, len(names))
	for i, name := range names {
		key, ok := n.keys[name]
		if !ok {
			key = uint32(len(n.Names))
			n.Names = append(n.Names, name)
			n.keys[name] = key
		}
		at[i] = key
	}
	for _, s := range spans {
		s.Key = at[s.Key]
		n.Spans = append(n.Spans, s)
	}
	return nil
}
