package kvstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/paragon-train/paragon/internal/shard"
	"github.com/paragon-train/paragon/internal/transport"
	"github.com/paragon-train/paragon/internal/wire"
	"github.com/paragon-train/paragon/optim"
)

// An engine holds shards in this process and answers a worker's requests as a server does, without a connection between.
type engine struct {
	pool *shard.Pool

	mu     sync.Mutex // guards the rest
	shards map[uint64]*shard.Shard
	mode   uint8
	guard  *shard.Guard
	given  optim.Config // as SetOptimizer said
	opt    *optim.Optimizer
}

var _ transport.Caller = (*engine)(nil)

func newEngine() *engine {
	return &engine{pool: &shard.Pool{}, shards: map[uint64]*shard.Shard{}}
}

func (e *engine) Close() error { return nil }

// Call carries out one request.
func (e *engine) Call(ctx context.Context, request, answer wire.Message, dst []byte, payload ...[]byte) ([]byte, error) {
	got, err := e.serve(ctx, request, answer, dst, payload)
	if err != nil {
		return nil, said(err)
	}
	return got, nil
}

// said puts a shard's refusal as a server's.
func said(err error) error {
	var refusal *shard.Error
	if errors.As(err, &refusal) {
		return &transport.Refusal{Addr: aloneAddr, Code: refusal.Code, Generation: aloneGeneration, Text: refusal.Text}
	}
	return err
}

func (e *engine) serve(ctx context.Context, request, answer wire.Message, dst []byte, payload [][]byte) ([]byte, error) {
	switch m := request.(type) {
	case *wire.Push:
		return e.push(ctx, m, answer, dst, payload)
	case *wire.Pull:
		return e.pull(ctx, m, answer, dst)
	case *wire.PushRows:
		s, err := e.shard(&m.Origin)
		if err != nil {
			return nil, err
		}
		c := shard.Contribution{Generation: m.Generation, Node: m.Node, Seq: m.Seq, Round: m.Round, Weight: m.Weight, Counted: m.Counted, Rows: int(m.Rows)}
		return nil, e.contribute(ctx, s, c, payload)
	case *wire.PullRows:
		return e.pullRows(ctx, m, answer, dst, payload)
	case *wire.InitShard:
		data := e.gather(payload)
		defer data.Release()
		var value []float32
		if !m.Zeros {
			value = data.Float32s(int(m.Length))
		}
		_, err := e.create(m, value)
		return nil, err
	case *wire.AwaitShard:
		_, err := e.shard(&m.Origin)
		return nil, err
	case *wire.SetOptimizer:
		return nil, e.setOptimizer(m)
	case *wire.SetRate:
		return nil, e.setRate(m)
	case *wire.ReadState:
		return e.readState(ctx, m, answer, dst)
	case *wire.WriteState:
		s, err := e.create(&m.Init, nil)
		if err != nil {
			return nil, err
		}
		data := e.gather(payload)
		defer data.Release()
		return nil, s.WriteState(m.Round, m.Slots, data.Float32s(int(m.Init.Length)*(1+len(m.Slots))))
	case *wire.ReadRows:
		return e.readRows(ctx, m, answer, dst)
	case *wire.WriteRows:
		s, err := e.create(&m.Init, nil)
		if err != nil {
			return nil, err
		}
		data := e.gather(payload)
		defer data.Release()
		return nil, s.WriteRows(m.Round, m.First, m.Slots, int(m.Rows), data)
	case *wire.ReadUsage:
		e.mu.Lock()
		defer e.mu.Unlock()
		total := shard.Sum(e.all())
		*answer.(*wire.Usage) = wire.Usage{Generation: aloneGeneration, Shards: uint64(len(e.shards)), Rows: total.Rows, Values: total.Values,
			State: total.State, Index: total.Index}
		return nil, nil
	}
	return nil, refuse(wire.CodeUnsupported, "got a %T", request)
}

func refuse(code wire.Code, format string, args ...any) error {
	return &shard.Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// gather copies a payload into one Buffer; nil if there is none.
func (e *engine) gather(payload [][]byte) *shard.Buffer {
	n := 0
	for _, p := range payload {
		n += len(p)
	}
	if n == 0 {
		return nil
	}
	data := e.pool.Get(n)
	b := data.Bytes(n)
	for _, p := range payload {
		b = b[copy(b, p):]
	}
	return data
}

func (e *engine) shard(o *wire.Origin) (*shard.Shard, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.shards[o.Key]
	if s == nil {
		return nil, refuse(wire.CodeUnknownKey, "key %d has no value yet", o.Key)
	}
	return s, nil
}

// create returns the shard that m describes, made with a first value if it is new.
func (e *engine) create(m *wire.InitShard, value []float32) (*shard.Shard, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.shards[m.Key]; s != nil {
		if have := s.Config(); have.Length != m.Length || have.Form != m.Form || have.RowLen != m.RowLen {
			return nil, refuse(wire.CodeSize, "got %d values, want %d", m.Length, s.Config().Length)
		}
		return s, nil
	}
	cfg, err := shard.ConfigOf(m, e.pool)
	if err != nil {
		return nil, err
	}
	s, err := shard.New(cfg, value)
	if err == nil && e.mode != 0 {
		err = s.SetMode(e.mode)
	}
	if err == nil {
		err = s.SetMembers(aloneGeneration, []shard.Member{{Node: aloneNode}})
	}
	if err == nil && e.opt != nil {
		err = shard.SetOptimizer([]*shard.Shard{s}, e.opt, shard.NoBound)
	}
	if err != nil {
		return nil, err
	}
	if e.guard != nil {
		shard.SetGuard([]*shard.Shard{s}, *e.guard)
	}
	e.shards[m.Key] = s
	return s, nil
}

func (e *engine) push(ctx context.Context, m *wire.Push, answer wire.Message, dst []byte, payload [][]byte) ([]byte, error) {
	s, err := e.shard(&m.Origin)
	if err != nil {
		return nil, err
	}
	c := shard.Contribution{Generation: m.Generation, Node: m.Node, Seq: m.Seq, Round: m.Round, Weight: m.Weight, Counted: m.Counted,
		Judged: m.Judged, Norm: m.Norm, Codec: m.Codec, Threshold: m.Threshold}
	for _, p := range payload {
		c.Size += len(p)
	}
	if err := e.contribute(ctx, s, c, payload); err != nil || !m.Answer {
		return nil, err
	}
	return e.value(ctx, s, shard.Want{Node: m.Node, Round: m.Round + 1, Seq: m.Seq, Staleness: shard.NoBound}, m.AnswerCodec, answer, dst)
}

// contribute hands a payload to its shard, when its turn comes.
func (e *engine) contribute(ctx context.Context, s *shard.Shard, c shard.Contribution, payload [][]byte) error {
	c.Data = e.gather(payload)
	for {
		status, err := s.Push(c)
		if err == nil && status != shard.Ahead {
			return nil
		}
		if err == nil {
			var v *shard.Version
			if v, err = s.Await(ctx, shard.Turn(c)); v != nil {
				v.Release()
			}
		}
		if err != nil {
			c.Data.Release()
			return err
		}
	}
}

func (e *engine) pull(ctx context.Context, m *wire.Pull, answer wire.Message, dst []byte) ([]byte, error) {
	s, err := e.shard(&m.Origin)
	if err != nil {
		return nil, err
	}
	return e.value(ctx, s, shard.Want{Node: m.Node, Round: m.Round, Seq: m.Seq, Staleness: m.Staleness}, m.Codec, answer, dst)
}

// value answers with a dense shard's value.
func (e *engine) value(ctx context.Context, s *shard.Shard, want shard.Want, codec uint8, answer wire.Message, dst []byte) ([]byte, error) {
	v, err := s.Await(ctx, want)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, refuse(wire.CodeUnsupported, "key %q is a key of rows", s.Config().Name)
	}
	defer v.Release()
	n := len(v.Float32s())
	missed, lead := v.HandTo(want.Node)
	*answer.(*wire.Value) = wire.Value{Generation: v.Generation(), Round: v.Round(), Codec: codec, N: uint64(n), Missed: missed, Lead: lead, Caught: s.CaughtOf(want.Node),
		Limit: v.Limit()}
	if codec == wire.CodecFloat32 {
		return dst[:copy(dst, v.Bytes())], nil
	}
	data, err := shard.Encode(e.pool, codec, v.Float32s())
	if err != nil {
		return nil, err
	}
	defer data.Release()
	return dst[:copy(dst, data.Bytes(valuesSize(codec, n)))], nil
}

func (e *engine) pullRows(ctx context.Context, m *wire.PullRows, answer wire.Message, dst []byte, payload [][]byte) ([]byte, error) {
	s, err := e.shard(&m.Origin)
	if err != nil {
		return nil, err
	}
	v, err := s.Await(ctx, shard.Want{Node: m.Node, Round: m.Round, Seq: m.Seq, Staleness: m.Staleness})
	if err != nil {
		return nil, err
	}
	if v != nil {
		v.Release()
	}
	var rows []int64
	if data := e.gather(payload); data != nil {
		defer data.Release()
		rows = data.Int64s(int(m.Rows))
	}
	n := len(rows) * int(s.Config().RowLen)
	out := e.pool.Get(4 * n)
	defer out.Release()
	round, generation, err := s.PullRows(rows, out.Float32s(n))
	if err != nil {
		return nil, err
	}
	*answer.(*wire.Value) = wire.Value{Generation: generation, Round: round, N: uint64(n), Caught: s.CaughtOf(m.Node)}
	return dst[:copy(dst, out.Bytes(4*n))], nil
}

func (e *engine) setOptimizer(m *wire.SetOptimizer) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mode != 0 && e.mode != m.Mode {
		return refuse(wire.CodeConflict, "mode: got %d, want %d", m.Mode, e.mode)
	}
	if e.mode == 0 && m.Guard != "" {
		g, err := shard.DecodeGuard(m.Guard)
		if err != nil {
			return refuse(wire.CodeMalformed, "%v", err)
		}
		e.guard = &g
	}
	e.mode = m.Mode
	if m.Config == "" {
		return nil
	}
	cfg, err := optim.Decode([]byte(m.Config))
	if err != nil {
		return refuse(wire.CodeMalformed, "%v", err)
	}
	if e.opt != nil {
		if !e.given.Equal(cfg) {
			return refuse(wire.CodeConflict, "got another optimizer than before: %s", m.Config)
		}
		return nil
	}
	opt, err := optim.New(cfg)
	if err != nil {
		return refuse(wire.CodeMalformed, "%v", err)
	}
	if err := shard.SetOptimizer(e.all(), opt, shard.NoBound); err != nil {
		return err
	}
	e.given, e.opt = cfg, opt
	return nil
}

func (e *engine) setRate(m *wire.SetRate) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opt == nil {
		return refuse(wire.CodeConflict, "set learning rate: there is no optimizer")
	}
	opt, err := optim.New(e.opt.Config().WithLearningRate(m.Round, m.Rate))
	if err != nil {
		return refuse(wire.CodeMalformed, "%v", err)
	}
	if err := shard.SetOptimizer(e.all(), opt, m.Round); err != nil {
		return err
	}
	e.opt = opt
	return nil
}

// all returns the shards in order of their keys.
func (e *engine) all() []*shard.Shard {
	list := make([]*shard.Shard, 0, len(e.shards))
	for _, s := range e.shards {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *shard.Shard) int { return cmp.Compare(a.Config().Key, b.Config().Key) })
	return list
}

func (e *engine) readRows(ctx context.Context, m *wire.ReadRows, answer wire.Message, dst []byte) ([]byte, error) {
	s, err := e.shard(&m.Origin)
	if err != nil {
		return nil, err
	}
	if _, err := s.Await(ctx, shard.Want{Node: m.Node, Round: m.Round, Seq: m.Seq, Staleness: shard.NoBound}); err != nil {
		return nil, err
	}
	st, err := s.ReadRows(m.From, m.Count)
	if err != nil {
		return nil, err
	}
	defer st.Data.Release()
	size := shard.OpenPayloadSize(st.Rows, int(s.Config().RowLen), len(st.Slots))
	if len(dst) < size {
		return nil, refuse(wire.CodeSize, "key %q: got room for %d bytes of rows, want %d", s.Config().Name, len(dst), size)
	}
	*answer.(*wire.Rows) = wire.Rows{Generation: st.Generation, Round: st.Round, Total: uint64(st.Total), Rows: uint64(st.Rows), Config: st.Config, Slots: st.Slots}
	if size == 0 {
		return nil, nil
	}
	return dst[:copy(dst, st.Data.Bytes(size))], nil
}

func (e *engine) readState(ctx context.Context, m *wire.ReadState, answer wire.Message, dst []byte) ([]byte, error) {
	s, err := e.shard(&m.Origin)
	if err != nil {
		return nil, err
	}
	v, err := s.Await(ctx, shard.Want{Node: m.Node, Round: m.Round, Seq: m.Seq, Staleness: shard.NoBound})
	if err != nil {
		return nil, err
	}
	if v != nil {
		v.Release()
	}
	st, err := s.ReadState()
	if err != nil {
		return nil, err
	}
	defer st.Values.Release()
	n := s.Config().Length
	size := int(n) * (1 + len(st.Slots)) * 4
	if len(dst) < size {
		return nil, refuse(wire.CodeSize, "key %q: got room for %d bytes of state, want %d", s.Config().Name, len(dst), size)
	}
	*answer.(*wire.State) = wire.State{Generation: st.Generation, Round: st.Round, N: n, Config: st.Config, Slots: st.Slots}
	return dst[:copy(dst, st.Values.Bytes(size))], nil
}
