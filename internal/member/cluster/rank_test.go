package cluster

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A worker's JSON lines have the rank that it has when they are written: none before it is a
// member, and another one after a change.
func TestLogHasTheRankOfTheMoment(t *testing.T) {
	var b bytes.Buffer
	logger := joblog.New(&b, slog.LevelInfo, joblog.Identity{Role: "worker", Rank: -1})
	n := newNode(Config{Logger: logger, Measuring: Measuring{Trace: trace.NewRecorder(telemetry.NewClock())}}, nil)
	n.id = 5
	defer n.life.cancel()
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

// A membership that came late, after a newer one, is not believed.
func TestAMembershipIsReplacedByNewerOnesAlone(t *testing.T) {
	n := newNode(Config{Logger: slog.New(slog.DiscardHandler), Measuring: Measuring{Trace: trace.NewRecorder(telemetry.NewClock())}}, nil)
	n.id = 5
	defer n.life.cancel()
	for _, c := range []struct{ revision, generation, want uint64 }{{2, 1, 1}, {2, 7, 1}, {1, 8, 1}, {3, 2, 2}} {
		changed := n.Changed()
		n.update(&wire.Membership{Revision: c.revision, Generation: c.generation, Phase: wire.PhaseRunning})
		if got := uint64(n.Generation()); got != c.want {
			t.Errorf("revision %d of generation %d: got generation %d, want %d", c.revision, c.generation, got, c.want)
		}
		select {
		case <-changed:
			if c.want != c.generation {
				t.Errorf("revision %d of generation %d: told as a change", c.revision, c.generation)
			}
		default:
			if c.want == c.generation {
				t.Errorf("revision %d of generation %d: not told", c.revision, c.generation)
			}
		}
	}
}

// Clients of servers, and of workers that add up on this host, stay while these are members.
func TestClientsOfMembersStay(t *testing.T) {
	n := newNode(Config{Logger: slog.New(slog.DiscardHandler), Measuring: Measuring{Trace: trace.NewRecorder(telemetry.NewClock())}}, nil)
	n.id = 5
	defer n.life.cancel()
	for _, addr := range []string{"s0:1", "s1:1", "w6:1", "w7:1"} {
		n.peers.callers[addr] = &caller{Client: transport.NewClient(addr, transport.Config{})}
	}
	worker := func(node uint64, addr string) wire.Member {
		return wire.Member{Node: node, Role: wire.RoleWorker, State: wire.MemberCounts, Rank: int32(node - 5), Addr: addr}
	}
	n.update(&wire.Membership{Revision: 1, Generation: 1, Phase: wire.PhaseRunning, Workers: 2, Servers: 1,
		Nodes: []wire.Member{{Node: 1, Role: wire.RoleServer, Addr: "s0:1"}, worker(5, ""), worker(6, "w6:1#host")}})
	n.peers.wg.Wait()
	if got := slices.Sorted(maps.Keys(n.peers.callers)); !slices.Equal(got, []string{"s0:1", "w6:1"}) {
		t.Errorf("got the clients of %q left, want those of server 0 and worker 6", got)
	}
	for _, c := range n.peers.callers {
		c.Client.Close()
	}
}
