package ctl

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/trace"
)

// What comes of a trace is joined by node, whatever the order in which it came.
func TestPiecesOfATraceAreJoinedByNode(t *testing.T) {
	p := tracePieces{trace: 3, nodes: map[uint64]*trace.Node{}}
	err := p.take(&control.TraceParts{Nodes: []control.TraceNode{{Node: 9, Role: "server"}, {Node: 2, Role: "worker", Missing: "it is gone"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.take(&control.TraceParts{Nodes: []control.TraceNode{{Node: 9, Role: "server", Dropped: 4}}}); err != nil {
		t.Fatal(err)
	}
	if got := p.nodes[9].Dropped; len(p.nodes) != 2 || got != 4 {
		t.Errorf("got %d nodes and %d spans dropped of node 9, want 2 and the 4 of the newest answer", len(p.nodes), got)
	}
	if _, err := p.timeline("job"); err == nil || !strings.Contains(err.Error(), "it is gone") {
		t.Errorf("a trace without spans: got error %v, want the reason of node 2", err)
	}
}

func TestAChunkOfAnUnknownNodeIsAnError(t *testing.T) {
	p := tracePieces{trace: 3, nodes: map[uint64]*trace.Node{}}
	err := p.take(&control.TraceParts{Chunks: []control.TraceChunk{{Node: 5, Number: 1}}})
	if err == nil || !strings.Contains(err.Error(), "trace 3: got a chunk of node 5") || p.after != 0 {
		t.Errorf("got error %v after chunk %d, want one that names node 5, and no chunk taken", err, p.after)
	}
}
