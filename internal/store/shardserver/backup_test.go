package shardserver

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// lonely is the place of server 1, node 2, in a job in which others are out of reach.
type lonely struct{ places wire.Places }

func (l *lonely) ID() uint64   { return 2 }
func (l *lonely) Rank() uint32 { return 1 }
func (l *lonely) Server(rank uint32) (transport.Caller, error) {
	return nil, fmt.Errorf("no server of rank %d", rank)
}
func (l *lonely) Places(context.Context, uint64) (wire.Places, error) { return l.places, nil }
func (l *lonely) Filled(ctx context.Context, m wire.Filled) error     { return nil }

// newBackup returns the rig of server 1, which backs key 7 for server 0, and what moves the shard:
// places under a placement.
func newBackup(t *testing.T) (r *rig, place func(placement uint64, server, backup uint32)) {
	t.Helper()
	r = newRig(t, 1)
	peers := &lonely{}
	r.s.SetPeers(t.Context(), peers)
	t.Cleanup(func() { r.s.Close() })
	place = func(placement uint64, server, backup uint32) {
		t.Helper()
		peers.places = wire.Places{Placement: placement, Next: 8, Keys: 8, Places: []wire.Place{{Key: 7, Server: server, Backup: backup}}}
		m := wire.Membership{Generation: 1, Phase: wire.PhaseRunning, Placement: placement, Nodes: []wire.Member{
			{Node: 1, Role: wire.RoleServer}, {Node: 2, Role: wire.RoleServer, Rank: 1}, {Node: 10, Role: wire.RoleWorker}}}
		if err := r.s.Follow(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	place(1, 0, 1)
	return r, place
}

// wholeFill gives a new backup one of many small keys: one value, by fill number 1.
func wholeFill(key uint64) *wire.Fill {
	return &wire.Fill{Copy: wire.Copy{Generation: 1, Node: 1, Placement: 1, Key: key}, Number: 1, Mode: wire.ModeSync, Whole: 1, Init: wire.InitShard{
		Origin: wire.Origin{Key: key}, Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: 1, Size: 1, Shards: 1, Zeros: true, Name: fmt.Sprint("w", key)},
		Members: []wire.FillMember{{Node: 10, Known: true}}}
}

// A server that takes over very many shards fills their new backups by a bounded number of
// goroutines.
func TestAPromotedServerStartsFewGoroutines(t *testing.T) {
	r := newRig(t, 1)
	peers := &lonely{}
	r.s.SetPeers(t.Context(), peers)
	defer r.s.Close()
	const keys = 3 * maxFillers
	place := func(placement uint64, server, backup uint32) {
		t.Helper()
		peers.places = wire.Places{Placement: placement, Next: keys, Keys: keys}
		for key := range uint64(keys) {
			peers.places.Places = append(peers.places.Places, wire.Place{Key: key, Server: server, Backup: backup})
		}
		m := wire.Membership{Generation: 1, Phase: wire.PhaseRunning, Placement: placement, Nodes: []wire.Member{
			{Node: 1, Role: wire.RoleServer}, {Node: 2, Role: wire.RoleServer, Rank: 1}, {Node: 3, Role: wire.RoleServer, Rank: 2}, {Node: 10, Role: wire.RoleWorker}}}
		if err := r.s.Follow(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	place(1, 0, 1)
	for key := range uint64(keys) {
		r.must(wholeFill(key), floats(1))
	}
	before := runtime.NumGoroutine()
	place(2, 1, 2) // server 2 is out of reach
	if got := runtime.NumGoroutine() - before; got > maxFillers {
		t.Errorf("got %d goroutines for %d shards, want at most %d", got, keys, maxFillers)
	}
	if n, ok := r.s.served(); n != keys || !ok {
		t.Errorf("got %d shards that workers use (%v), want %d", n, ok, keys)
	}
	place(3, 1, wire.NoServer)
	for key := range uint64(keys) {
		r.wantValue(0, key, 0, 1)
	}
}

func copyOf(node, placement uint64) wire.Copy {
	return wire.Copy{Generation: 1, Node: node, Placement: placement, Key: 7}
}

// filled gives the rig key 7 of two values, by fill number 1.
func (r *rig) filled(node, placement uint64) {
	r.t.Helper()
	r.must(&wire.Fill{Copy: copyOf(node, placement), Number: 1, Mode: wire.ModeSync, Round: 3, Init: wire.InitShard{
		Origin: wire.Origin{Key: 7}, Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: 2, Size: 2, Shards: 1, Zeros: true, Name: "w"},
		Members: []wire.FillMember{{Node: 10, LastSeq: 3, Known: true}}, Newest: wire.Norms{Count: 2, Examples: 7}, Weight: 7, Examples: 5}, nil)
	r.must(&wire.FillPart{Copy: copyOf(node, placement), Number: 1, Count: 2, Last: true}, floats(1, 2))
}

func record(node, placement, round uint64) *wire.Replicate {
	return &wire.Replicate{Copy: copyOf(node, placement), Number: 1, Round: round, Form: wire.RecordValue, Counts: []wire.CountedPush{{Node: 10, Seq: round + 1, Weight: 1}}}
}

// What a promoted backup says of the newest round is what its primary would have said, whether that
// came with the state or with a round.
func TestAPromotedBackupKnowsTheNewestRound(t *testing.T) {
	for replicated := range 2 {
		r, place := newBackup(t)
		r.filled(1, 1)
		norms, weight, examples := wire.Norms{Count: 2, Examples: 7}, 7.0, uint64(5)
		if replicated == 1 {
			norms, weight, examples = wire.Norms{Count: 1, Examples: 5, MeanSqr: 2}, 5, 3
			m := record(1, 1, 3)
			m.Norms, m.Weight, m.Counts[0].Examples = norms, weight, examples
			r.must(m, floats(3, 4))
		}
		place(2, 1, wire.NoServer)
		answer, _ := r.must(&wire.Pull{Origin: origin(0, 7, 0), Round: uint64(3 + replicated)}, nil)
		if v := answer.(*wire.Value); v.Norms != norms || v.Weight != weight || v.Examples != examples {
			t.Errorf("%d rounds after the state: got norms %+v, weight %v and %d examples, want %+v, %v and %d", replicated, v.Norms, v.Weight, v.Examples, norms, weight, examples)
		}
	}
}

// A server that was declared lost closes no round any more: the backup that took its place refuses
// it.
func TestAPrimaryThatIsNoneAnyMoreClosesNoRound(t *testing.T) {
	r, place := newBackup(t)
	r.filled(1, 1)
	r.must(record(1, 1, 3), floats(3, 4))
	r.must(record(1, 1, 3), floats(9, 9)) // sent again
	r.refused(record(1, 1, 5), floats(9, 9), wire.CodeGap)
	r.refused(&wire.Pull{Origin: origin(0, 7, 0)}, nil, wire.CodeMoved)

	place(2, 1, wire.NoServer)
	r.refused(record(1, 1, 4), floats(9, 9), wire.CodeMoved)
	r.refused(record(1, 2, 4), floats(9, 9), wire.CodeMoved)
	r.refused(&wire.Fill{Copy: copyOf(1, 1), Number: 2, Mode: wire.ModeSync, Init: wire.InitShard{Origin: wire.Origin{Key: 7}, Form: wire.FormDense,
		Rule: wire.RuleOptimizer, Length: 2, Size: 2, Shards: 1, Name: "w"}}, nil, wire.CodeMoved)
	answer, out := r.must(&wire.Pull{Origin: origin(0, 7, 0), Round: 4}, nil)
	if v := answer.(*wire.Value); v.Round != 4 || string(out) != string(floats(3, 4)) {
		t.Errorf("got round %d with % x, want round 4 with 3, 4", v.Round, out)
	}
	// What a worker sends again counts once.
	r.must(&wire.Push{Origin: origin(0, 7, 4), Round: 3, Weight: 1, N: 2}, floats(3, 4))
	r.must(&wire.Push{Origin: origin(0, 7, 5), Round: 4, Weight: 1, N: 2}, floats(5, 6))
	if answer, out := r.must(&wire.Pull{Origin: origin(0, 7, 5), Round: 5}, nil); answer.(*wire.Value).Round != 5 || string(out) != string(floats(5, 6)) {
		t.Errorf("got round %d with % x, want round 5 with 5, 6", answer.(*wire.Value).Round, out)
	}
}

// Whatever comes instead of a round or a fill is refused and changes nothing.
func TestBackupRefusesWhatDoesNotBelong(t *testing.T) {
	r, _ := newBackup(t)
	r.refused(record(1, 1, 3), floats(3, 4), wire.CodeGap) // it has nothing
	r.filled(1, 1)
	other, rows, form, number := record(5, 1, 3), record(1, 1, 3), record(1, 1, 3), record(1, 1, 3)
	rows.Form, rows.Rows, form.Form, number.Number = wire.RecordRows, 1, 9, 2
	r.refused(other, floats(9, 9), wire.CodeMoved)
	r.refused(rows, floats(0, 0), wire.CodeMalformed)
	r.refused(form, nil, wire.CodeMalformed)
	r.refused(number, floats(9, 9), wire.CodeGap)
	r.refused(record(1, 1, 3), floats(9), wire.CodeSize)
	r.refused(&wire.FillPart{Copy: copyOf(1, 1), Number: 4, Count: 2, Last: true}, floats(1, 2), wire.CodeGap)
	config := record(1, 1, 3)
	config.Configured, config.Config = true, `{"name":"none of ours"}`
	r.refused(config, floats(9, 9), wire.CodeMalformed)
	r.refused(&wire.Fill{Copy: copyOf(1, 1), Number: 2, Mode: 77, Init: wire.InitShard{Origin: wire.Origin{Key: 7}}}, nil, wire.CodeMalformed)
	r.refused(&wire.Fill{Copy: copyOf(1, 1), Number: 2, Mode: wire.ModeSync, Init: wire.InitShard{Origin: wire.Origin{Key: 8}}}, nil, wire.CodeMalformed)
	r.must(record(1, 1, 3), floats(3, 4))
}

// A small shard comes whole with its Fill. A repeated one changes nothing, not even after rounds
// have followed.
func TestASmallBackupComesInOneMessage(t *testing.T) {
	r, place := newBackup(t)
	fill := &wire.Fill{Copy: copyOf(1, 1), Number: 1, Mode: wire.ModeSync, Round: 3, Whole: 2, Init: wire.InitShard{
		Origin: wire.Origin{Key: 7}, Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: 2, Size: 2, Shards: 1, Zeros: true, Name: "w"},
		Members: []wire.FillMember{{Node: 10, LastSeq: 3, Known: true}}}
	r.must(fill, floats(1, 2))
	r.must(record(1, 1, 3), floats(5, 6))
	r.must(fill, floats(1, 2))
	short := *fill
	short.Number, short.Init.Length, short.Init.Size = 2, 3, 3
	r.refused(&short, floats(1, 2), wire.CodeSize)
	r.refused(&wire.Fill{Copy: copyOf(1, 1), Number: 2, Mode: wire.ModeSync, Whole: smallFill + 1}, make([]byte, 4*(smallFill+1)), wire.CodeSize)
	place(2, 1, wire.NoServer)
	r.wantValue(0, 7, 4, 5, 6)
}
