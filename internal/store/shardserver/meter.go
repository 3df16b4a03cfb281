package shardserver

import (
	"sync/atomic"

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

// Closed counts and traces a round. The shard's mutex is held, so it takes no lock.
func (m *meter) Closed(cfg *shard.Config, t shard.Timing) {
	m.count(&t)
	m.traceRound(cfg, &t)
}

// Now is the server's time.
func (m *meter) Now() int64 { return m.clock.now() }

// Hold counts contributions that wait.
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

// traceRound records a round that has closed, and its update.
func (m *meter) traceRound(cfg *shard.Config, t *shard.Timing) {
	r := m.trace
	if !r.On() {
		return
	}
	end := m.clock.traced(t.At)
	x := trace.Span{Kind: trace.Round, Begin: end - int64(max(t.Duration, t.Update)), End: end, Key: r.Name(cfg.Name), Shard: cfg.Index, Round: t.Round, Peer: t.Node}
	r.Add(x)
	x.Kind, x.Begin = trace.Apply, end-int64(t.Update)
	r.Add(x)
}
