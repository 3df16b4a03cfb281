package scheduler

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// The loss of a worker stands in the log with its code and with the worker that was lost, whatever
// the text says.
func TestNotesHaveEvents(t *testing.T) {
	at := time.Unix(0, 0)
	c := NewCore(Settings{Job: "j", Workers: 2, Servers: 1, Heartbeat: time.Second, Lease: 10 * time.Second, Patience: 10 * time.Second, StartTimeout: time.Minute,
		Elastic: cluster.Elastic{Enabled: true, OnWorkerLoss: cluster.LossShrink, MinWorkers: 1, JoinTimeout: time.Minute, RejoinTimeout: time.Minute}}, at)
	var b strings.Builder
	s := newShell(Config{Config: cluster.Config{Logger: joblog.New(&b, slog.LevelInfo, joblog.Identity{Role: "scheduler"})}}, c, nil)
	request := uint64(0)
	step := func(m wire.Message) {
		request++
		s.held = append(s.held, c.Step(Event{At: at, Request: request, Message: m}))
	}
	for i, role := range []uint8{wire.RoleServer, wire.RoleWorker, wire.RoleWorker} {
		step(&wire.Register{Role: role, Rank: -1, Workers: 2, Servers: 1, Nonce: uint64(i + 1), Process: uint32(i + 7), Job: "j", Host: "d1", Addr: "d1:1"})
	}
	// Node 3 is silent.
	for range 30 {
		at = at.Add(time.Second)
		step(&wire.Heartbeat{Node: 1})
		step(&wire.Heartbeat{Node: 2})
	}
	if err := s.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	type line struct {
		Event    string
		Node     uint64
		Rank     int    `json:"node_rank"`
		Role     string `json:"node_role"`
		Host     string `json:"node_host"`
		Process  uint32 `json:"node_process"`
		Workers  int
		Mine     string `json:"role"`
		HasCause string `json:"reason"`
	}
	var all []line
	for text := range strings.Lines(b.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		l.HasCause = strings.Repeat("x", min(1, len(l.HasCause)))
		all = append(all, l)
	}
	for _, want := range []line{
		{Event: "node_registered", Node: 3, Rank: -1, Role: "worker", Host: "d1", Process: 9, Mine: "scheduler"},
		{Event: "generation", Workers: 2, Mine: "scheduler"},
		{Event: "worker_lost", Node: 3, Rank: 1, Role: "worker", Host: "d1", Process: 9, Mine: "scheduler", HasCause: "x"},
		{Event: "generation", Workers: 1, Mine: "scheduler"},
	} {
		if !slices.Contains(all, want) {
			t.Errorf("no line %+v in\n%s", want, b.String())
		}
	}
}
