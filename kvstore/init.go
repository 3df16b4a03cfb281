package kvstore

import (
	"context"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/store/wire"
)

func (s *store) Init(ctx context.Context, key string, value []float32) error {
	return s.init(ctx, wire.Declare{Name: key, Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: uint64(len(value))}, value)
}

func (s *store) InitAverage(ctx context.Context, key string, value []float32) error {
	return s.init(ctx, wire.Declare{Name: key, Form: wire.FormDense, Rule: wire.RuleAverage, Size: uint64(len(value))}, value)
}

func (s *store) InitRows(ctx context.Context, key string, numRows, rowLen int, value []float32) error {
	if numRows <= 0 || rowLen <= 0 || numRows > math.MaxInt/rowLen {
		return keyError("init", key, ErrSize, "got %d rows of %d values, want at least one row of one value", numRows, rowLen)
	}
	if value != nil && len(value) != numRows*rowLen {
		return keyError("init", key, ErrSize, "got %d values, want %d: %d rows of %d", len(value), numRows*rowLen, numRows, rowLen)
	}
	d := wire.Declare{Name: key, Form: wire.FormRows, Rule: wire.RuleOptimizer, Size: uint64(numRows) * uint64(rowLen), RowLen: uint64(rowLen)}
	return s.init(ctx, d, value)
}

func (s *store) init(ctx context.Context, d wire.Declare, value []float32) error {
	if err := wire.CheckKeyName(d.Name); err != nil {
		return keyError("init", d.Name, err, "")
	}
	if d.Size == 0 && d.Form != wire.FormOpen {
		return keyError("init", d.Name, ErrSize, "got no values, want at least one")
	}
	old, err := s.beginInit(d.Name)
	if err != nil {
		return err
	}
	defer s.endInit(d.Name)
	if old != nil { // a Load brought the key: its value stays
		return old.checkSame(&d)
	}
	k, err := s.place(ctx, d)
	if err != nil {
		return err
	}
	round, err := k.initOrAwait(ctx, value)
	if err != nil {
		return err
	}
	if s.async {
		round = 0
	}
	k.setRound(round)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[d.Name] = k
	return nil
}

// beginInit claims a key's name for an Init. It returns the key if a Load brought it.
func (s *store) beginInit(name string) (*key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[name]
	if k != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
	}
	switch {
	case s.closed:
		return nil, keyError("init", name, ErrClosed, "")
	case s.initialising[name], k != nil && !k.reinit:
		return nil, keyError("init", name, ErrDuplicateInit, "by this worker")
	}
	if k != nil {
		k.reinit = false
	}
	s.initialising[name] = true
	return k, nil
}

func (s *store) endInit(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.initialising, name)
}

// checkSame checks that an Init after a Load describes the same key.
func (k *key) checkSame(d *wire.Declare) error {
	if k.form != d.Form || k.rule != d.Rule || uint64(k.size) != d.Size || uint64(k.rowLen) != d.RowLen {
		return keyError("init", k.name, ErrSize, "got %s, want %s as loaded",
			describe(d.Form, d.Rule, d.Size, d.RowLen), describe(k.form, k.rule, uint64(k.size), uint64(k.rowLen)))
	}
	if k.table != d.Table {
		return keyError("init", k.name, ErrConflict, "got the table %s, want %s as loaded", wire.Shown(d.Table), wire.Shown(k.table))
	}
	return nil
}

// describe describes a key's form and size.
func describe(form, rule uint8, size, rowLen uint64) string {
	switch {
	case form == wire.FormOpen:
		return fmt.Sprintf("an open vocabulary with rows of %d values", rowLen)
	case form == wire.FormRows && rowLen > 0:
		return fmt.Sprintf("%d rows of %d values", size/rowLen, rowLen)
	case rule == wire.RuleAverage:
		return fmt.Sprintf("%d averaged values", size)
	}
	return fmt.Sprintf("%d values", size)
}

// place asks the scheduler where a key's shards are.
func (s *store) place(ctx context.Context, d wire.Declare) (*key, error) {
	s.mu.Lock()
	opt := s.optimizer
	s.mu.Unlock()
	d.Whole = d.Rule == wire.RuleOptimizer && opt != nil && opt.WholeKeys()
	var plan wire.KeyPlan
	before := s.placement.version.Load()
	err := s.requests.ask(ctx, fmt.Sprintf("init key %s", wire.Shown(d.Name)), func(ctx context.Context) (err error) {
		plan, err = s.node.Declare(ctx, d)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := checkPlan(&d, &plan); err != nil {
		return nil, keyError("init", d.Name, ErrConflict, "plan: %v", err)
	}
	k := newKey(s, &plan)
	k.table = d.Table
	s.placement.track(k, before)
	s.hostSums.track(k)
	s.logger.Debug("kvstore: key placed", "key", k.name, "values", k.size, "shards", len(k.shards))
	if d.Whole && len(k.shards) > 1 {
		return nil, keyError("init", d.Name, ErrUnsupported, "%s needs norms over whole keys, but the key is cut into %d shards: "+
			"another worker initialised it before SetOptimizer; call SetOptimizer first on every worker", opt.Name, len(k.shards))
	}
	return k, nil
}

// checkPlan checks that a plan is of the declared key, and that its shards cover the key.
func checkPlan(d *wire.Declare, p *wire.KeyPlan) error {
	if p.Name != d.Name || p.Form != d.Form || p.Rule != d.Rule || p.Size != d.Size || p.RowLen != d.RowLen {
		return fmt.Errorf("got key %s of %s, want %s of %s", wire.Shown(p.Name), describe(p.Form, p.Rule, p.Size, p.RowLen), wire.Shown(d.Name), describe(d.Form, d.Rule, d.Size, d.RowLen))
	}
	if len(p.Shards) == 0 {
		return fmt.Errorf("got no shards")
	}
	n := uint64(len(p.Shards))
	offset := uint64(0)
	for i, x := range p.Shards {
		want := wire.ShardPlace{Server: x.Server, Offset: offset, Length: x.Length}
		if d.Form == wire.FormOpen {
			want.Offset, want.Length = uint64(i), 0
		} else if d.Form == wire.FormRows {
			rows := d.Size / d.RowLen
			want.Offset = uint64(i)
			want.Length = (rows + n - 1 - uint64(i)) / n * d.RowLen
		} else if x.Length == 0 || x.Length > d.Size-offset {
			return fmt.Errorf("shard %d: got %d values from %d on, want them within %d", i, x.Length, x.Offset, d.Size)
		}
		if x != want {
			return fmt.Errorf("shard %d: got %d values at offset %d, want %d at %d", i, x.Length, x.Offset, want.Length, want.Offset)
		}
		offset += x.Length
	}
	if offset != d.Size {
		return fmt.Errorf("got shards of %d values together, want %d", offset, d.Size)
	}
	return nil
}

// initHead describes shard i to its server.
func (k *key) initHead(i int) wire.InitShard {
	x := k.shards[i]
	return wire.InitShard{Origin: k.origin(i, 0), Form: k.form, Rule: k.rule, Offset: x.Offset, Length: x.Length,
		RowLen: uint64(k.rowLen), Size: uint64(k.size), Shards: uint32(len(k.shards)), Name: k.name, Table: k.table}
}

// initOrAwait initialises the shards if this worker leads (its rank is 0), else waits until the
// leader has. If the leader is lost meanwhile, the next one goes on with its own values; a shard
// that is initialised already keeps its value. It returns how many rounds have closed. No round can
// close without this worker, so all shards agree.
func (k *key) initOrAwait(ctx context.Context, value []float32) (round uint64, err error) {
	s := k.s
	leads := func(wire.Membership) bool { return s.leader() == s.NodeID() }
	await := func(ctx context.Context) (err error) {
		round, err = k.awaitShards(ctx)
		return err
	}
	for !leads(wire.Membership{}) {
		changed, err := s.whileFollowing(ctx, leads, await)
		if !changed {
			return round, err
		}
	}
	return k.initShards(ctx, value)
}

// roundOf notes the rounds of the first shard, from the answer to its InitShard or AwaitShard.
func roundOf(round *uint64) func(c *call, i int) error {
	return func(c *call, i int) error {
		if a, ok := c.answer.(*wire.Ack); ok && i == 0 {
			*round = a.Revision
		}
		return nil
	}
}

// initShards gives every shard its first value. A nil value is all zeros.
func (k *key) initShards(ctx context.Context, value []float32) (round uint64, err error) {
	err = k.s.requests.everyShard(ctx, "init", k, func(c *call, i int) error {
		head := k.initHead(i)
		head.Zeros = value == nil
		c.request, c.origin, c.answer = &head, &head.Origin, &wire.Ack{}
		if value == nil {
			return nil
		}
		var r alignedBuffer
		c.payload = [][]byte{r.floats(k.s.native, k.shardValues(i, value))}
		return k.fitsFrame("init", i, len(c.payload[0]))
	}, roundOf(&round))
	return round, err
}

// shardValues returns shard i's part of the whole key's value: a subslice, or a copy for rows.
func (k *key) shardValues(i int, value []float32) []float32 {
	if k.form == wire.FormDense {
		from, to := k.span(i)
		return value[from:to]
	}
	n := len(k.shards)
	if n == 1 {
		return value
	}
	part := make([]float32, 0, k.shards[i].Length)
	for at := range k.shardRows(i) {
		row := int(k.spread.Row(i, int64(at)))
		part = append(part, value[row*k.rowLen:(row+1)*k.rowLen]...)
	}
	return part
}

// putShardValues is the inverse of shardValues: it copies shard i's values to their place in value.
func (k *key) putShardValues(i int, value, part []float32) {
	if k.form == wire.FormDense {
		from, to := k.span(i)
		copy(value[from:to], part)
		return
	}
	for at := range k.shardRows(i) {
		row := int(k.spread.Row(i, int64(at)))
		copy(value[row*k.rowLen:(row+1)*k.rowLen], part[at*k.rowLen:])
	}
}

// shardRows returns the number of rows of shard i.
func (k *key) shardRows(i int) int { return int(k.shards[i].Length) / k.rowLen }

// awaitShards waits until rank 0 has given every shard a value.
func (k *key) awaitShards(ctx context.Context) (round uint64, err error) {
	err = k.s.requests.everyShard(ctx, "init", k, func(c *call, i int) error {
		head := wire.AwaitShard{Origin: k.origin(i, 0), WaitMillis: k.s.waitMillis()}
		c.request, c.origin, c.answer = &head, &head.Origin, &wire.Ack{}
		return nil
	}, roundOf(&round))
	return round, err
}

// fitsFrame returns an error for a payload that is too large for a frame.
func (k *key) fitsFrame(verb string, i, bytes int) error {
	if bytes > wire.MaxPayload {
		return keyError(verb, k.name, ErrUnsupported, "shard %d takes %d bytes, a frame at most %d", i, bytes, wire.MaxPayload)
	}
	return nil
}

// findRound asks the smallest shard how many rounds have closed. No round can close without this
// worker, so all shards agree; in an asynchronous store the number does not matter.
func (k *key) findRound(ctx context.Context) error {
	if k.s.async {
		k.setRound(0)
		return nil
	}
	small := 0
	for i, x := range k.shards {
		if x.Length < k.shards[small].Length {
			small = i
		}
	}
	o := newOp(k.s.requests, "init", k.name, 1)
	c := &o.calls[0]
	c.aim(k, small)
	var value wire.Value
	c.answer = &value
	if k.form != wire.FormDense {
		head := wire.PullRows{Origin: k.origin(small, 0), WaitMillis: k.s.waitMillis(), Staleness: math.MaxUint64}
		c.request, c.origin = &head, &head.Origin
	} else {
		head := wire.Pull{Origin: k.origin(small, 0), Codec: wire.CodecFloat32, WaitMillis: k.s.waitMillis(), Staleness: math.MaxUint64}
		c.request, c.origin, c.dst = &head, &head.Origin, make([]byte, 4*k.shards[small].Length)
	}
	if err := o.run(ctx); err != nil {
		return err
	}
	k.setRound(value.Round)
	return nil
}
