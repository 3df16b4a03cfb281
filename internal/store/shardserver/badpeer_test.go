package shardserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// hosted makes ranks 0 and 1 workers of host a, 2 and 3 of host b, that take part in sums within
// their hosts.
func (r *rig) hosted() {
	r.t.Helper()
	m := wire.Membership{Generation: 1, Phase: wire.PhaseRunning, Nodes: []wire.Member{{Node: 1, Role: wire.RoleServer}}}
	for i := range 4 {
		m.Nodes = append(m.Nodes, wire.Member{Node: uint64(10 + i), Role: wire.RoleWorker, Rank: int32(i), Host: string(rune('a' + i/2)), Addr: "127.0.0.1:1#id"})
	}
	if err := r.s.SetMembership(m); err != nil {
		r.t.Fatal(err)
	}
}

func contributors(nodes ...uint64) (list []wire.Contributor) {
	for _, n := range nodes {
		list = append(list, wire.Contributor{Node: n, Seq: 1, Weight: 1})
	}
	return list
}

// A sum may name the workers of its sender's host, each once, and the sender; nothing of another
// one counts.
func TestASumSpeaksForItsHostAlone(t *testing.T) {
	r := newRig(t, 4)
	r.init(0, 0)
	r.hosted()
	taken := r.s.pool.Taken()
	crowd := make([]uint64, wire.MaxContributors)
	for i := range crowd {
		crowd[i] = uint64(10 + i)
	}
	sum := func(nodes ...uint64) (*wire.Push, []byte) {
		m, b := push(0, 0, 0, 5)
		m.Seq, m.Weight, m.Contributors = 0, 0, contributors(nodes...)
		return m, b
	}
	for _, c := range []struct {
		name  string
		nodes []uint64
		code  wire.Code
		text  string
	}{
		{"of another host", []uint64{10, 12}, wire.CodePushAlone, "nodes 10 and 12 are not of one host"},
		{"of both hosts", []uint64{10, 11, 12, 13}, wire.CodePushAlone, "not of one host"},
		{"no worker", []uint64{10, 99}, wire.CodePushAlone, "node 99 is not a worker"},
		{"a server", []uint64{1, 10}, wire.CodePushAlone, "node 1 is not a worker"},
		{"doubled", []uint64{10, 10}, wire.CodeMalformed, "comes after node 10"},
		{"others' alone", []uint64{12, 13}, wire.CodeMalformed, "node 10 is not among"},
		{"as many as fit", crowd, wire.CodePushAlone, "not of one host"},
	} {
		m, b := sum(c.nodes...)
		if text := r.refused(m, b, c.code); !strings.Contains(text, c.text) {
			t.Errorf("%s: got %q, want %q in it", c.name, text, c.text)
		}
		r.wantTaken(taken)
	}
	// A list that says it is longer than the message is an error before there is memory for it.
	m, _ := sum(10, 11)
	head := wire.AppendHead(nil, m)
	for _, n := range []uint32{0, 1, 3, wire.MaxContributors + 1, 1e9, math.MaxUint32} {
		binary.LittleEndian.PutUint32(head[len(head)-2*57-4-8:], n)
		req := &transport.Request{Kind: wire.KindPush, Head: head}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := r.s.Buffer(req, 4)
		runtime.ReadMemStats(&after)
		var refusal *transport.Refusal
		if !errors.As(err, &refusal) || refusal.Code != wire.CodeMalformed {
			t.Errorf("%d contributors in the bytes of 2: got %v, want it refused as malformed", n, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("%d contributors in the bytes of 2: %d bytes were allocated", n, got)
		}
	}
	m, b := sum(10, 11)
	r.must(m, b)
	m, b = sum(12, 13)
	m.Node, m.Rank = 12, 2
	r.must(m, b)
	r.wantValue(0, 0, 1, 10)
}

// The same push again and again in one message counts once, and takes no more memory than the quota
// of its shard allows.
func TestDoublesInAMessageOfManyCountOnce(t *testing.T) {
	r := newRig(t, 2)
	r.init(0, 0)
	taken := r.s.pool.Taken()
	parts := make([]part, wire.MaxPushes)
	for i := range parts {
		parts[i] = partOf(0, 0, 0, false, 7)
	}
	m, b := together(parts...)
	answer, out := r.must(m, b)
	busy := fmt.Sprint(wire.CodeBusy)
	if got := results(m, answer, out); strings.Count(got, "ok") != maxPushes || strings.Count(got, busy) != wire.MaxPushes-maxPushes {
		t.Errorf("got %d pushes taken and %d refused as busy, want %d and the others", strings.Count(got, "ok"), strings.Count(got, busy), maxPushes)
	}
	if most := taken + 64; r.s.pool.Taken() > most {
		t.Errorf("%d bytes are in use, want at most %d", r.s.pool.Taken(), most)
	}
	single, b := push(1, 0, 0, 1)
	r.must(single, b)
	r.wantValue(0, 0, 1, 8)
	r.wantTaken(taken)
}
