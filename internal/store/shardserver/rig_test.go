package shardserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A rig calls a Server's Handler as the transport does, without sockets.
type rig struct {
	t testing.TB
	s *Server
}

func newRig(t testing.TB, workers int) *rig {
	return newRigConfig(t, workers, Config{})
}

func newRigConfig(t testing.TB, workers int, cfg Config) *rig {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if cfg.Recorder == nil {
		cfg.Recorder = new(telemetry.Recorder)
	}
	r := &rig{t, New(cfg)}
	r.members(1, workers)
	return r
}

// members makes ranks 0..workers-1 nodes 10, 11, ... of host a, b, ...
func (r *rig) members(generation uint64, workers int) {
	r.t.Helper()
	m := wire.Membership{Generation: generation, Phase: wire.PhaseRunning}
	m.Nodes = append(m.Nodes, wire.Member{Node: 1, Role: wire.RoleServer})
	for i := range workers {
		m.Nodes = append(m.Nodes, wire.Member{Node: uint64(10 + i), Role: wire.RoleWorker, Rank: int32(i), Host: string(rune('a' + i)), PID: uint32(100 + i)})
	}
	if err := r.s.SetMembership(m); err != nil {
		r.t.Fatal(err)
	}
}

func origin(rank int, key uint64, seq uint64) wire.Origin {
	return wire.Origin{Generation: 1, Node: uint64(10 + rank), Rank: uint32(rank), Key: key, Seq: seq}
}

// call serves one request and returns the answer and its payload.
func (r *rig) call(ctx context.Context, m wire.Message, payload []byte) (wire.Message, []byte, error) {
	req := &transport.Request{Kind: m.Kind(), Head: wire.AppendHead(nil, m), Remote: &net.TCPAddr{}}
	if len(payload) > 0 {
		b, err := r.s.Buffer(req, len(payload))
		if err != nil {
			return nil, nil, err
		}
		copy(b, payload)
		req.Payload = b
	}
	resp, done, err := r.s.Prompt(req)
	if err == nil && !done {
		resp, err = r.s.Serve(ctx, req)
	}
	if err != nil {
		if resp.Release != nil {
			r.t.Errorf("%v: an error came with a Release", m.Kind())
		}
		return nil, nil, err
	}
	// The message belongs to the call; take a copy through its bytes.
	answer := wire.New(resp.Message.Kind())
	if err := wire.DecodeHead(answer, wire.AppendHead(nil, resp.Message)); err != nil {
		r.t.Errorf("%v: its answer: %v", m.Kind(), err)
	}
	out := slices.Concat(resp.Payload...)
	if resp.Release != nil {
		resp.Release()
	}
	return answer, out, nil
}

func (r *rig) must(m wire.Message, payload []byte) (wire.Message, []byte) {
	r.t.Helper()
	answer, out, err := r.call(r.t.Context(), m, payload)
	if err != nil {
		r.t.Fatalf("%v: %v", m.Kind(), err)
	}
	return answer, out
}

func (r *rig) refused(m wire.Message, payload []byte, want wire.Code) string {
	r.t.Helper()
	_, _, err := r.call(r.t.Context(), m, payload)
	var refusal *transport.Refusal
	if !errors.As(err, &refusal) || refusal.Code != want {
		r.t.Fatalf("%v: got %v, want a refusal: %v", m.Kind(), err, want)
	}
	return refusal.Text
}

func (r *rig) init(key uint64, value ...float32) {
	r.t.Helper()
	n := uint64(len(value))
	r.must(&wire.InitShard{
		Origin: origin(0, key, 0), Form: wire.FormDense, Rule: wire.RuleOptimizer,
		Length: n, Size: n, Shards: 1, Name: fmt.Sprint("w", key),
	}, floats(value...))
}

func (r *rig) initRows(key uint64, rows, rowLen int) {
	r.t.Helper()
	n := uint64(rows * rowLen)
	r.must(&wire.InitShard{
		Origin: origin(0, key, 0), Form: wire.FormRows, Rule: wire.RuleOptimizer,
		Length: n, Size: n, RowLen: uint64(rowLen), Shards: 1, Zeros: true, Name: fmt.Sprint("e", key),
	}, nil)
}

func (r *rig) initOpen(key uint64, rowLen int) {
	r.t.Helper()
	r.must(&wire.InitShard{
		Origin: origin(0, key, 0), Form: wire.FormOpen, Rule: wire.RuleOptimizer,
		RowLen: uint64(rowLen), Shards: 1, Zeros: true, Name: fmt.Sprint("o", key),
	}, nil)
}

func (r *rig) setOptimizer(cfg optim.Config) {
	r.t.Helper()
	r.must(setOptimizer(r.t, 0, wire.ModeSync, cfg), nil)
}

func setOptimizer(t testing.TB, rank int, mode uint8, cfg optim.Config) *wire.SetOptimizer {
	t.Helper()
	m := &wire.SetOptimizer{Origin: origin(rank, 0, 0), Mode: mode}
	if cfg.Name != "" {
		data, err := cfg.Encode()
		if err != nil {
			t.Fatal(err)
		}
		m.Config = string(data)
	}
	return m
}

func push(rank int, key, round uint64, grad ...float32) (*wire.Push, []byte) {
	return &wire.Push{Origin: origin(rank, key, round+1), Round: round, Weight: 1, N: uint64(len(grad)), WaitMillis: 1000}, floats(grad...)
}

func pull(rank int, key, round uint64) *wire.Pull {
	return &wire.Pull{Origin: origin(rank, key, round), Round: round, WaitMillis: 1000, Staleness: math.MaxUint64}
}

func (r *rig) wantValue(rank int, key, round uint64, want ...float32) {
	r.t.Helper()
	m, out := r.must(pull(rank, key, round), nil)
	v := m.(*wire.Value)
	if got := unfloats(out); v.Round != round || v.N != uint64(len(want)) || !slices.Equal(got, want) {
		r.t.Fatalf("value of key %d: got %v, %d values of %d rounds; want %v of %d", key, got, v.N, v.Round, want, round)
	}
}

// wantTaken checks that no payload memory is out but that of values.
func (r *rig) wantTaken(values int64) {
	r.t.Helper()
	if got := r.s.pool.Taken(); got != values {
		r.t.Errorf("memory taken from the pool: got %d bytes, want %d, that of the values", got, values)
	}
	if got := r.s.budget.loading.Load(); got != 0 {
		r.t.Errorf("bytes on their way in: got %d, want 0", got)
	}
	many := r.s.budget.strangersMany.Load()
	for _, w := range r.s.membership.Load().workers {
		many += w.many.Load()
	}
	if many != 0 {
		r.t.Errorf("pushes in messages of many: got %d under way, want 0", many)
	}
	if len(r.s.budget.reads) != 0 {
		r.t.Errorf("states being read: got %d, want 0", len(r.s.budget.reads))
	}
	for at, e := range r.s.entries {
		if len(e.shares) != 0 {
			r.t.Errorf("payloads and answers under way at %v: got %+v, want none", at, e.shares)
		}
	}
}

func floats(values ...float32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func unfloats(b []byte) []float32 {
	var out []float32
	for ; len(b) >= 4; b = b[4:] {
		out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return out
}

func int64s(values ...int64) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}
