package kvstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore/internal/buffer"
)

// An initialiser makes keys known: to the scheduler, which says where their shards are, to the
// servers, which get their first values from the worker that leads, and to the parts of the store
// that follow all keys.
type initialiser struct {
	common    *keyEnv
	requests  *requests
	member    *membership
	placement *placementTracker
	host      *hostSums
	keys      *keyTable
	rules     *roundRules
}

// Init gives a key its first value.
func (s *initialiser) Init(ctx context.Context, key string, value []float32) error {
	return s.init(ctx, wire.Declare{Name: key, Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: uint64(len(value))}, value)
}

// InitAverage is Init for a key that no optimizer touches.
func (s *initialiser) InitAverage(ctx context.Context, key string, value []float32) error {
	return s.init(ctx, wire.Declare{Name: key, Form: wire.FormDense, Rule: wire.RuleAverage, Size: uint64(len(value))}, value)
}

// InitRows is Init for a key of rows.
func (s *initialiser) InitRows(ctx context.Context, key string, numRows, rowLen int, value []float32) error {
	if numRows <= 0 || rowLen <= 0 || numRows > math.MaxInt/rowLen {
		return keyError("init", key, ErrSize, "got %d rows of %d values, want at least one row of one value", numRows, rowLen)
	}
	if value != nil && len(value) != numRows*rowLen {
		return keyError("init", key, ErrSize, "got %d values, want %d: %d rows of %d", len(value), numRows*rowLen, numRows, rowLen)
	}
	d := wire.Declare{Name: key, Form: wire.FormRows, Rule: wire.RuleOptimizer, Size: uint64(numRows) * uint64(rowLen), RowLen: uint64(rowLen)}
	return s.init(ctx, d, value)
}

// init declares a key, gives its shards their first values or waits for the worker that does, and
// makes the key known to this worker's calls. After an error the key is not known, and another Init
// may try again.
func (s *initialiser) init(ctx context.Context, d wire.Declare, value []float32) error {
	if err := wire.CheckKeyName(d.Name); err != nil {
		return keyError("init", d.Name, err, "")
	}
	if d.Size == 0 && d.Form != wire.FormOpen {
		return keyError("init", d.Name, ErrSize, "got no values, want at least one")
	}
	old, err := s.keys.beginInit(d.Name)
	if err != nil {
		return err
	}
	defer s.keys.endInit(d.Name)
	// A key that Load has made keeps its loaded value.
	if old != nil {
		return old.checkSame(&d)
	}
	k, err := s.place(ctx, d)
	if err != nil {
		return err
	}
	round, err := s.initOrAwait(ctx, k, value)
	if err != nil {
		return err
	}
	if s.common.async {
		round = 0
	}
	k.setRound(round)
	s.keys.add(k)
	return nil
}

// place asks the scheduler where a key's shards are.
func (s *initialiser) place(ctx context.Context, d wire.Declare) (*key, error) {
	opt := s.rules.optimizer()
	d.Whole = d.Rule == wire.RuleOptimizer && opt != nil && opt.WholeKeys()
	var plan wire.KeyPlan
	// The version is read before the plan is asked for: a plan that is older than a move is
	// then known to be so (placementTracker.track).
	before := s.placement.version.Load()
	err := s.requests.ask(ctx, fmt.Sprintf("init key %s", wire.Shown(d.Name)), func(ctx context.Context) (err error) {
		plan, err = s.requests.node.Declare(ctx, d)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := checkPlan(&d, &plan); err != nil {
		return nil, keyError("init", d.Name, ErrConflict, "plan: %v", err)
	}
	k := newKey(s.common, &plan)
	k.table = d.Table
	s.placement.track(k, before)
	s.host.track(k)
	s.common.logger.Debug("kvstore: key placed", "key", k.name, "values", k.size, "shards", len(k.shards))
	if d.Whole && len(k.shards) > 1 {
		return nil, keyError("init", d.Name, ErrUnsupported, "%s needs norms over whole keys, but the key is cut into %d shards: "+
			"another worker initialised it before SetOptimizer; call SetOptimizer first on every worker", opt.Name, len(k.shards))
	}
	return k, nil
}

// checkPlan checks that a plan is of the declared key, and that its shards cover the key: dense
// ones by ranges that follow one another, those of rows by every n-th row. All that slices a
// gradient or a value relies on this, and does not check again.
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

// initOrAwait initialises the shards if this worker leads (its rank is 0), else waits until the
// leader has. If the leader is lost meanwhile, the next one goes on with its own values; a shard
// that is initialised already keeps its value. It returns how many rounds have closed. No round can
// close without this worker, so all shards agree.
func (s *initialiser) initOrAwait(ctx context.Context, k *key, value []float32) (round uint64, err error) {
	leads := func(wire.Membership) bool { return s.member.leader() == s.member.NodeID() }
	await := func(ctx context.Context) (err error) {
		round, err = s.awaitShards(ctx, k)
		return err
	}
	for !leads(wire.Membership{}) {
		changed, err := s.member.unlessChanged(ctx, leads, await)
		if !changed {
			return round, err
		}
	}
	return s.initShards(ctx, k, value)
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
func (s *initialiser) initShards(ctx context.Context, k *key, value []float32) (round uint64, err error) {
	err = s.requests.everyShard(ctx, "init", k, func(c *call, i int) error {
		head := k.initHead(i)
		head.Zeros = value == nil
		c.request, c.origin, c.answer = &head, &head.Origin, &wire.Ack{}
		if value == nil {
			return nil
		}
		var r buffer.Aligned
		c.payload = [][]byte{r.Floats(s.common.native, k.shardValues(i, value))}
		return k.fitsFrame("init", i, len(c.payload[0]))
	}, roundOf(&round))
	return round, err
}

// awaitShards waits until rank 0 has given every shard a value.
func (s *initialiser) awaitShards(ctx context.Context, k *key) (round uint64, err error) {
	err = s.requests.everyShard(ctx, "init", k, func(c *call, i int) error {
		head := wire.AwaitShard{Origin: k.origin(i, 0), WaitMillis: s.common.waitMillis()}
		c.request, c.origin, c.answer = &head, &head.Origin, &wire.Ack{}
		return nil
	}, roundOf(&round))
	return round, err
}

// findRound asks the smallest shard how many rounds have closed. No round can close without this
// worker, so all shards agree; in an asynchronous store the number does not matter.
func (s *initialiser) findRound(ctx context.Context, k *key) error {
	if s.common.async {
		k.setRound(0)
		return nil
	}
	small := 0
	for i, x := range k.shards {
		if x.Length < k.shards[small].Length {
			small = i
		}
	}
	o := newOp(s.requests, "init", k.name, 1)
	c := &o.calls[0]
	c.aim(k, small)
	var value wire.Value
	c.answer = &value
	if !k.dense() {
		head := wire.PullRows{Origin: k.origin(small, 0), WaitMillis: s.common.waitMillis(), Staleness: math.MaxUint64}
		c.request, c.origin = &head, &head.Origin
	} else {
		head := wire.Pull{Origin: k.origin(small, 0), Codec: wire.CodecFloat32, WaitMillis: s.common.waitMillis(), Staleness: math.MaxUint64}
		c.request, c.origin, c.dst = &head, &head.Origin, make([]byte, 4*k.shards[small].Length)
	}
	if err := o.run(ctx); err != nil {
		return err
	}
	k.setRound(value.Round)
	return nil
}

// findRounds reads from the servers at which round every key is.
func (s *initialiser) findRounds(ctx context.Context) error {
	var finding sync.WaitGroup
	keys := s.keys.sorted()
	errs := make([]error, len(keys))
	places := make(chan struct{}, shardsAtOnce)
	for i, k := range keys {
		places <- struct{}{}
		finding.Go(func() {
			errs[i] = s.findRound(ctx, k)
			<-places
		})
	}
	finding.Wait()
	return errors.Join(errs...)
}
