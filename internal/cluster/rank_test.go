package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/paragon-train/paragon/internal/joblog"
	"github.com/paragon-train/paragon/internal/wire"
)

// A worker's JSON lines have the rank that it has when they are written: none before it is a member, and another one after a change.
func TestLogHasTheRankOfTheMoment(t *testing.T) {
	var b bytes.Buffer
	logger := joblog.New(&b, slog.LevelInfo, joblog.Identity{Role: "worker", Rank: -1})
	n := &Node{cfg: Config{Logger: logger}, id: 5, done: make(chan struct{}), changed: make(chan struct{})}
	n.position.Store(&position{})
	n.ctx, n.cancel = context.WithCancel(t.Context())
	defer n.cancel()
	for i, c := range []struct {
		state uint8
		rank  int32
		want  int
	}{{wire.MemberJoining, -1, -1}, {wire.MemberCounts, 2, 2}, {wire.MemberCounts, 1, 1}} {
		n.update(&wire.Membership{Revision: uint64(i + 1), Generation: uint64(i + 1), Phase: wire.PhaseRunning, Workers: 3,
			Nodes: []wire.Member{{Node: 5, Role: wire.RoleWorker, Rank: c.rank, State: c.state}}})
		b.Reset()
		logger.Info("x")
		var line struct{ Rank int }
		if err := json.Unmarshal(b.Bytes(), &line); err != nil || line.Rank != c.want {
			t.Errorf("generation %d: rank %d, error %v, want %d", i+1, line.Rank, err, c.want)
		}
	}
}
