package shardserver

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/shard"
)

// A meter records what a server's shards measure: it is the Meter of each. But for collecting it
// takes no lock.
type meter struct {
	recorder *telemetry.Recorder
	trace    *trace.Recorder
	clock    *clock
	// membership and bytes are the server's, and served returns how many shards it serves; false:
	// that cannot be said now.
	membership *atomic.Pointer[membership]
	bytes      *atomic.Int64
	served     func() (int, bool)
	// held is the bytes of contributions that wait.
	held atomic.Int64
	// waiting is the number of requests that wait for a round.
	waiting atomic.Int64
	blames  blameTable
}

// measure makes the server record into its Config's Recorder.
func (s *Server) measure() {
	if s.cfg.Recorder == nil && s.cfg.Trace == nil {
		return
	}
	s.meter = &meter{recorder: s.cfg.Recorder, trace: s.cfg.Trace, clock: &s.clock, membership: &s.membership, bytes: &s.budget.bytes, served: s.served,
		blames: blameTable{nodes: map[uint64]*blame{}}}
	s.cfg.Recorder.Collect(s.meter.collect)
	s.cfg.Recorder.CollectBlames(func() []telemetry.Blame { return s.meter.blames.newest(s.clock.now()) })
}

func (m *meter) Closed(cfg *shard.Config, t shard.Timing) {
	m.count(&t)
	m.traceRound(cfg, &t)
}

func (m *meter) Now() int64 { return m.clock.now() }

func (m *meter) Hold(bytes int64) { m.held.Add(bytes) }

// count adds a round to the sums.
func (m *meter) count(t *shard.Timing) {
	seconds := float64(max(t.Duration, 0)) / 1e9
	m.recorder.Add(telemetry.Rounds, 1)
	m.recorder.Add(telemetry.RoundSeconds, seconds)
	m.recorder.Observe(telemetry.RoundBuckets, seconds)
	m.recorder.Add(telemetry.ApplySeconds, float64(max(t.Apply, 0))/1e9)
	if t.Gap <= 0 {
		return
	}
	// There is none if the worker has left, and this was its last round.
	if w := m.membership.Load().workers[t.Last]; w != nil {
		w.blame.rounds.Add(1)
		w.blame.nanos.Add(int64(t.Gap))
	}
}

// wait counts a request that begins to wait (1) or has ended its wait (-1).
func (m *meter) wait(n int64) {
	if m != nil {
		m.waiting.Add(n)
	}
}

// collect records what is read only when it is asked for.
func (m *meter) collect(r *telemetry.Recorder) {
	r.Set(telemetry.HeldBytes, float64(m.held.Load()))
	r.Set(telemetry.Waiting, float64(m.waiting.Load()))
	r.Set(telemetry.ValueBytes, float64(m.bytes.Load()))
	if n, ok := m.served(); ok {
		r.Set(telemetry.Shards, float64(n))
	}
}

// served is the number of shards that workers use on this server: all but those of which it is a
// backup. It does not wait for a call that changes all shards, which may take long: a heartbeat
// would come too late. ok is false then.
func (s *Server) served() (n int, ok bool) {
	if !s.mu.TryRLock() {
		return 0, false
	}
	defer s.mu.RUnlock()
	return s.serves, true
}

// A blame is how often a worker's contribution came last, and how long after the last but one,
// since the server began.
type blame struct {
	rounds atomic.Uint64
	nanos  atomic.Int64

	// Guarded by the table's mu.
	// toldRounds is as in the newest Record that had this worker.
	toldRounds uint64
	toldNanos  int64
	// left is when the worker was last seen to be no member; 0: it is one.
	left int64
}

// A blameTable has the blames of the workers of the membership, and of those that have left it
// within forgetBlame.
type blameTable struct {
	mu    sync.Mutex // guards the rest
	nodes map[uint64]*blame
}

// forgetBlame is how long the blame of a worker that has left is told: some heartbeats, of which a
// few may be lost.
const forgetBlame = int64(time.Minute)

// of returns the blame of a worker that is in the membership.
func (t *blameTable) of(node uint64) *blame {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.nodes[node]
	if b == nil {
		b = &blame{}
		t.nodes[node] = b
	}
	b.left = 0
	return b
}

// leave marks the workers that are not in v, and forgets those that are gone for long.
func (t *blameTable) leave(v *membership, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for node, b := range t.nodes {
		switch {
		case v.workers[node] != nil:
		case b.left == 0:
			b.left = now
		case now-b.left > forgetBlame:
			delete(t.nodes, node)
		}
	}
}

// newest returns what a Record has of the blames, sorted by node: those that grew most since a
// Record had them, the longest time first. So a worker that others wait for is in each Record, and
// each other one from time to time, however many there are.
func (t *blameTable) newest(now int64) []telemetry.Blame {
	t.mu.Lock()
	defer t.mu.Unlock()
	type grown struct {
		*blame
		telemetry.Blame
		nanos, by int64
	}
	var all []grown
	for node, b := range t.nodes {
		if b.left != 0 && now-b.left > forgetBlame {
			delete(t.nodes, node)
			continue
		}
		if rounds := b.rounds.Load(); rounds > 0 {
			nanos := b.nanos.Load()
			all = append(all, grown{b, telemetry.Blame{Node: node, Rounds: rounds, Seconds: time.Duration(nanos).Seconds()}, nanos, nanos - b.toldNanos})
		}
	}
	slices.SortFunc(all, func(a, b grown) int {
		return cmp.Or(cmp.Compare(b.by, a.by), cmp.Compare(b.Rounds-b.toldRounds, a.Rounds-a.toldRounds), cmp.Compare(a.Node, b.Node))
	})
	all = all[:min(len(all), telemetry.MaxBlames)]
	slices.SortFunc(all, func(a, b grown) int { return cmp.Compare(a.Node, b.Node) })
	told := make([]telemetry.Blame, len(all))
	for i, g := range all {
		told[i], g.toldNanos, g.toldRounds = g.Blame, g.nanos, g.Rounds
	}
	return told
}

// blameOf returns the blame of a worker of the membership; nil if nothing is measured.
func (m *meter) blameOf(node uint64) *blame {
	if m == nil {
		return nil
	}
	return m.blames.of(node)
}
