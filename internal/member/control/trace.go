package control

import (
	"fmt"
	"slices"
)

// The operations of a trace (package trace).
const (
	// OpTrace begins a window of Steps or, if that is 0, of WindowMillis, for the workers of Ranks;
	// none: up to MaxTraced of them. It is answered with a Trace.
	OpTrace = "trace"
	// OpTraceParts asks for the chunks of Trace with numbers above After, and lets the scheduler drop
	// the others. It is answered with TraceParts.
	OpTraceParts = "trace-parts"
	// OpTraceEnd drops Trace, and ends its window. It is answered with Done.
	OpTraceEnd = "trace-end"
)

// Limits of a trace.
const (
	MaxTraceSteps  = 1000
	MaxTraceMillis = 120_000 // length of a window
	MaxTraced      = 32      // workers in a trace, and as many servers
)

// Trace is the answer to OpTrace.
type Trace struct {
	Error string `json:"error,omitempty"`
	// Again says that Error may pass, such as another trace that is being taken: ask again.
	Again       bool   `json:"again,omitempty"`
	Trace       uint64 `json:"trace"`    // its ID
	StartMillis int64  `json:"start_ms"` // milliseconds until the window starts
	Job         string `json:"job"`
	Workers     int    `json:"workers"` // how many are traced
	Servers     int    `json:"servers"`
	// LeftOut is how many workers and servers are not traced.
	LeftOut int `json:"left_out,omitempty"`
}

// The states of TraceParts.
const (
	TraceRecording  = "recording"  // workers make their steps
	TraceCollecting = "collecting" // nodes send what they have recorded
	TraceDone       = "done"       // nothing more comes
)

// TraceParts is the answer to OpTraceParts.
type TraceParts struct {
	Error string      `json:"error,omitempty"`
	State string      `json:"state"`
	Nodes []TraceNode `json:"nodes"`
	// Chunks are those with numbers above After, in order, as many as fit into one answer; Last
	// is the newest number that the scheduler has.
	Chunks []TraceChunk `json:"chunks"`
	Last   uint64       `json:"last"`
}

// A TraceNode is one process of a trace.
type TraceNode struct {
	Node     uint64 `json:"node"`
	Role     string `json:"role"`
	Rank     int32  `json:"rank"`
	Host     string `json:"host"`
	PID      uint32 `json:"pid"`
	OffsetNS int64  `json:"offset_ns"` // the scheduler's clock minus the node's
	BoundNS  int64  `json:"bound_ns"`  // the largest error of OffsetNS
	// Dropped is how many spans did not fit into the node's memory.
	Dropped uint64 `json:"dropped,omitempty"`
	Done    bool   `json:"done"`              // all its chunks have come
	Missing string `json:"missing,omitempty"` // why some chunks will not come
}

// A TraceChunk is what a node sent: spans, as package trace encodes them.
type TraceChunk struct {
	Number uint64 `json:"number"` // from 1
	Node   uint64 `json:"node"`
	Data   []byte `json:"data"`
}

func (t *Trace) refusal() (string, bool) { return t.Error, t.Again }

func (t *Trace) check() error {
	if t.Trace == 0 || t.StartMillis < 0 || t.Workers < 0 || t.Servers < 0 || t.LeftOut < 0 {
		return fmt.Errorf("control: trace: got ID %d, %d workers, %d servers, %d left out, start in %d ms: want an ID above 0, and no number below 0", t.Trace, t.Workers, t.Servers, t.LeftOut, t.StartMillis)
	}
	return nil
}

func (t *TraceParts) refusal() (string, bool) { return t.Error, false }

func (t *TraceParts) check() error {
	if !slices.Contains([]string{TraceRecording, TraceCollecting, TraceDone}, t.State) {
		return fmt.Errorf("control: trace parts: state %q: want %s, %s or %s", t.State, TraceRecording, TraceCollecting, TraceDone)
	}
	if len(t.Nodes) > 2*MaxTraced {
		return fmt.Errorf("control: trace parts: %d nodes, want at most %d", len(t.Nodes), 2*MaxTraced)
	}
	for _, n := range t.Nodes {
		if n.Role != Worker && n.Role != Server || n.Rank < 0 || n.Rank > maxRank || n.BoundNS < 0 {
			return fmt.Errorf("control: trace parts: node %d is %s %d, its clock known to ±%d ns: want a worker or server of rank 0 to %d and a bound from 0", n.Node, n.Role, n.Rank, n.BoundNS, maxRank)
		}
	}
	for i, x := range t.Chunks {
		if x.Number > t.Last || i > 0 && x.Number <= t.Chunks[i-1].Number {
			return fmt.Errorf("control: trace parts: chunk %d after %d of %d: want rising numbers", x.Number, t.Chunks[max(i-1, 0)].Number, t.Last)
		}
	}
	return nil
}

func (r *Request) checkTrace() error {
	switch {
	case r.Steps < 0 || r.Steps > MaxTraceSteps || r.WindowMillis < 0 || r.WindowMillis > MaxTraceMillis || len(r.Ranks) > MaxTraced:
		return fmt.Errorf("op %s: %d steps, %d ms, %d workers: want at most %d steps, %d ms, %d workers", r.Op, r.Steps, r.WindowMillis, len(r.Ranks), MaxTraceSteps, MaxTraceMillis, MaxTraced)
	case r.Op == OpTrace && r.Steps == 0 && r.WindowMillis == 0:
		return fmt.Errorf("op %s: want steps, or window_ms", r.Op)
	case (r.Op == OpTraceParts || r.Op == OpTraceEnd) && r.Trace == 0:
		return fmt.Errorf("op %s: want the trace's number", r.Op)
	}
	return nil
}
