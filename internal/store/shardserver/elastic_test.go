package shardserver

import (
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// setMembers makes the nodes of these IDs the members, in rank order, and joining ones.
func (r *rig) setMembers(generation uint64, m wire.Membership, members []uint64, joining ...uint64) {
	r.t.Helper()
	m.Generation, m.Phase = generation, wire.PhaseRunning
	for i, id := range members {
		m.Nodes = append(m.Nodes, wire.Member{Node: id, Role: wire.RoleWorker, Rank: int32(i), Host: "a"})
	}
	for _, id := range joining {
		m.Nodes = append(m.Nodes, wire.Member{Node: id, Role: wire.RoleWorker, Rank: -1, State: wire.MemberJoining, Host: "new"})
	}
	if err := r.s.SetMembership(m); err != nil {
		r.t.Fatal(err)
	}
}

// A worker that joins sees what is here and changes nothing; nobody waits for it, until it counts.
func TestAJoiningWorkerMayAskAndChangesNothing(t *testing.T) {
	r := newRig(t, 2)
	r.init(0, 5)
	r.initRows(1, 4, 1)
	r.initOpen(2, 1)
	r.setOptimizer(optim.Config{Name: "test", LearningRate: 1})
	r.setMembers(1, wire.Membership{}, []uint64{10, 11}, 12)
	from := func(key, seq uint64) wire.Origin {
		return wire.Origin{Generation: 1, Node: 12, Rank: 2, Key: key, Seq: seq}
	}
	init := wire.InitShard{Origin: from(7, 0), Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: 1, Size: 1, Shards: 1, Name: "w7"}
	for _, m := range []struct {
		message wire.Message
		payload []byte
	}{
		{&init, floats(1)},
		{&wire.Push{Origin: from(0, 1), Weight: 1, N: 1}, floats(1)},
		{&wire.PushRows{Origin: from(1, 1), Weight: 1}, nil},
		{&wire.SetRate{Origin: from(0, 0), Round: 3, Rate: 1}, nil},
		{&wire.WriteState{Init: init}, floats(1)},
		{&wire.WriteRows{Init: wire.InitShard{Origin: from(2, 0), Form: wire.FormOpen, Rule: wire.RuleOptimizer, RowLen: 1, Shards: 1, Name: "o2"}}, nil},
	} {
		if text := r.refused(m.message, m.payload, wire.CodeUnsupported); !strings.Contains(text, "joining worker on new (node 12") {
			t.Errorf("%v: got %q, want the worker's name", m.message.Kind(), text)
		}
	}
	other := setOptimizer(t, 0, wire.ModeSync, optim.Config{Name: "test", LearningRate: 2})
	other.Origin = from(0, 0)
	r.refused(other, nil, wire.CodeConflict)
	same := setOptimizer(t, 0, wire.ModeSync, optim.Config{Name: "test", LearningRate: 1})
	same.Origin = from(0, 0)
	for _, m := range []wire.Message{
		same,
		&wire.AwaitShard{Origin: from(0, 0)},
		&wire.Pull{Origin: from(0, 0), Staleness: math.MaxUint64},
		&wire.PullRows{Origin: from(1, 0), Staleness: math.MaxUint64},
		&wire.ReadState{Origin: from(0, 0), WaitMillis: 1000},
		&wire.ReadRows{Origin: from(2, 0), Count: 1, WaitMillis: 1000},
		&wire.ReadUsage{Origin: from(0, 0)},
	} {
		r.must(m, nil)
	}
	for rank := range 2 { // the round closes without it
		m, b := push(rank, 0, 0, 1)
		r.must(m, b)
	}
	r.wantValue(0, 0, 1, 7)

	r.setMembers(2, wire.Membership{}, []uint64{10, 11, 12})
	for rank := range 3 { // and the next one with it
		m, b := push(rank, 0, 1, 1)
		m.Generation, m.Node = 2, uint64(10+rank)
		if rank == 2 {
			m.Seq = 1
			r.refused(pull(0, 0, 1), nil, wire.CodeStaleGeneration)
		}
		r.must(m, b)
	}
	got, out := r.must(&wire.Pull{Origin: wire.Origin{Generation: 2, Node: 12, Rank: 2}, Round: 2, Staleness: math.MaxUint64}, nil)
	if v := got.(*wire.Value); v.Round != 2 || unfloats(out)[0] != 10 {
		t.Errorf("got %v of %d rounds, want 10 of 2", unfloats(out), v.Round)
	}
}

// A joining worker that is here before the others have said what they want waits for them.
func TestAJoiningWorkerDoesNotChooseTheOptimizer(t *testing.T) {
	r := newRig(t, 1)
	r.setMembers(1, wire.Membership{}, []uint64{10}, 12)
	joins := func(cfg optim.Config) *wire.SetOptimizer {
		m := setOptimizer(t, 0, wire.ModeSync, cfg)
		m.Origin = wire.Origin{Generation: 1, Node: 12, Rank: 1}
		return m
	}
	r.refused(joins(optim.Config{}), nil, wire.CodeBusy)
	r.must(setOptimizer(t, 0, wire.ModeSync, optim.Config{}), nil)
	r.must(joins(optim.Config{}), nil)
	r.refused(joins(optim.Config{Name: "adam"}), nil, wire.CodeBusy)
	r.setOptimizer(optim.Config{Name: "adam"})
	r.must(joins(optim.Config{Name: "adam"}), nil)
	guarded := joins(optim.Config{})
	guarded.Guard = "{}"
	if text := r.refused(guarded, nil, wire.CodeConflict); !strings.Contains(text, "had set none") {
		t.Errorf("got %q, want it to say what the others said", text)
	}
	guarded.Guard = "{"
	r.refused(guarded, nil, wire.CodeMalformed)
}

// What a lost worker counted is the least over the shards whose contributions count examples. It is
// kept as long as the scheduler asks for it, and then forgotten.
func TestTheExamplesOfALostWorkerAreKeptUntilTheyAreCounted(t *testing.T) {
	r := newRig(t, 2)
	if got := r.s.ExamplesOf(11); got != math.MaxUint64 {
		t.Errorf("a server without shards: got %d examples, want MaxUint64", got)
	}
	r.init(0, 0)
	r.init(1, 0)
	r.init(2, 0)
	send := func(rank int, key, round, examples uint64, counts bool) {
		m, b := push(rank, key, round, 1)
		m.Examples, m.Counted = examples, counts
		r.must(m, b)
	}
	send(1, 0, 0, 32, true)
	send(1, 0, 1, 32, true)
	send(1, 1, 0, 32, true)
	send(1, 2, 0, 1, false) // a flag
	lose := wire.Membership{Change: 1, LostToCount: []uint64{11}}
	for generation := range uint64(3) {
		r.setMembers(2+generation, lose, []uint64{10})
		if got := r.s.ExamplesOf(11); got != 32 {
			t.Errorf("generation %d: got %d examples, want 32", 2+generation, got)
		}
	}
	r.setMembers(5, wire.Membership{}, []uint64{10})
	if got := r.s.ExamplesOf(11); got != 0 {
		t.Errorf("after it was counted: got %d, want 0", got)
	}
}

// The log has a line for each worker and second, with rank, host, key and step, and says how many
// there were.
func TestWhatTheGuardCaughtIsLoggedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := newRigConfig(t, 2, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		m := setOptimizer(t, 0, wire.ModeSync, optim.Config{Name: "test", LearningRate: 1})
		var err error
		if m.Guard, err = (shard.Guard{Factor: 10, Warmup: 1, Clip: true}).Encode(); err != nil {
			t.Fatal(err)
		}
		r.must(m, nil)
		r.init(0, 0)
		bad := []float32{1, float32(math.Inf(1)), 1e6, 1e6}
		for round, g := range bad {
			for rank := range 2 {
				p, b := push(rank, 0, uint64(round), 1)
				if rank == 1 {
					p, b = push(rank, 0, uint64(round), g)
				}
				r.must(p, b)
			}
		}
		answer, _ := r.must(&wire.ReadUsage{Origin: origin(0, 0, 0)}, nil)
		want := wire.CaughtCount{Node: 11, Rank: 1, Refused: 1, Clipped: 2, Host: "b"}
		if got := answer.(*wire.Usage).Caught; len(got) != 1 || got[0] != want {
			t.Errorf("usage: got %+v, want %+v", got, want)
		}
		if got := log.String(); strings.Count(got, "the guard") != 1 || !strings.Contains(got, "rank=1 host=b node=11 key=w0 shard=0 step=1") {
			t.Errorf("log: got\n%s\nwant one line that names rank 1 on b, key w0 and step 1", got)
		}
		value, _ := r.must(pull(1, 0, 4), nil)
		if got := value.(*wire.Value).Caught; got != 3 {
			t.Errorf("the worker is told of %d, want 3", got)
		}
	})
}
