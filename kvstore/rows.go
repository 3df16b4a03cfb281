package kvstore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/f32"
	"github.com/paragon-train/paragon/wire"
)

// A split sorts the rows of one call by shard: row r is row r / n of shard r mod n. Within a shard rows rise and come once.
type split struct {
	shards []shardRows
	order  []place
}

// shardRows are one shard's rows of a call.
type shardRows struct {
	rows   []int64   // numbers within the shard
	values []float32 // of rows
	first  int       // index in split.order of the first of its places
	count  int       // of its places
	rising bool      // they came sorted
	code   [2]room
}

// A place is one row as the caller named it.
type place struct {
	row int64 // within the shard
	at  int   // index in the caller's rows
}

// of sorts rows over n shards. Rows that come sorted take one pass to count and one to place.
func (s *split) of(n int, rows []int64) {
	if s.shards == nil {
		s.shards = make([]shardRows, n)
	}
	for i := range s.shards {
		s.shards[i].count = 0
	}
	for _, r := range rows {
		s.shards[r%int64(n)].count++
	}
	first := 0
	for i := range s.shards {
		x := &s.shards[i]
		x.first, x.rising = first, true
		first += x.count
		x.count = 0
	}
	order := grow(&s.order, len(rows))
	for i, r := range rows {
		x := &s.shards[r%int64(n)]
		p := place{row: r / int64(n), at: i}
		if x.count > 0 && order[x.first+x.count-1].row > p.row {
			x.rising = false
		}
		order[x.first+x.count] = p
		x.count++
	}
	for i := range s.shards {
		x := &s.shards[i]
		mine := s.mine(i)
		if !x.rising {
			slices.SortFunc(mine, func(a, b place) int {
				if a.row != b.row {
					return cmp.Compare(a.row, b.row)
				}
				return cmp.Compare(a.at, b.at) // duplicates add up in the caller's order
			})
		}
		x.rows = x.rows[:0]
		for j, p := range mine {
			if j == 0 || mine[j-1].row != p.row {
				x.rows = append(x.rows, p.row)
			}
		}
	}
}

// mine returns the places of shard i, in order.
func (s *split) mine(i int) []place {
	x := &s.shards[i]
	return s.order[x.first : x.first+x.count]
}

// add fills every shard's values from grad, of whose rows those of the same number add up.
func (s *split) add(rowLen int, grad []float32) {
	for i := range s.shards {
		x := &s.shards[i]
		values := grow(&x.values, len(x.rows)*rowLen)
		k := -1
		for _, p := range s.mine(i) {
			from := grad[p.at*rowLen : (p.at+1)*rowLen]
			if k < 0 || x.rows[k] != p.row {
				k++
				copy(values[k*rowLen:], from)
				continue
			}
			f32.AddTo(values[k*rowLen:(k+1)*rowLen], from)
		}
	}
}

// scatter copies every shard's values to the rows of out that the caller named.
func (s *split) scatter(rowLen int, out []float32) {
	for i := range s.shards {
		x := &s.shards[i]
		k := -1
		for _, p := range s.mine(i) {
			if k < 0 || x.rows[k] != p.row {
				k++
			}
			copy(out[p.at*rowLen:(p.at+1)*rowLen], x.values[k*rowLen:(k+1)*rowLen])
		}
	}
}

// checkRows checks a call's rows and the length of its values.
func (k *key) checkRows(verb string, rows []int64, what string, values int) error {
	if values/k.rowLen != len(rows) || values%k.rowLen != 0 {
		return keyError(verb, k.name, ErrSize, "%s: got %d values for %d rows, want %d for each", what, values, len(rows), k.rowLen)
	}
	for i, r := range rows {
		if r < 0 || r >= int64(k.rows) {
			return keyError(verb, k.name, ErrSize, "rows[%d]: got row %d, want 0 to %d", i, r, k.rows-1)
		}
	}
	return nil
}

// A rowsPush is the push of a key of rows.
type rowsPush struct {
	*op
	heads    []wire.PushRows
	acks     []wire.Ack
	payloads [][2][]byte
	split    split
}

func newRowsPush(k *key) *rowsPush {
	n := len(k.shards)
	p := &rowsPush{op: newOp(k.s, "push rows", k.name, n), heads: make([]wire.PushRows, n), acks: make([]wire.Ack, n), payloads: make([][2][]byte, n)}
	for i := range p.calls {
		c := &p.calls[i]
		c.server, c.shard = int(k.shards[i].Server), i
		c.request, c.origin, c.answer, c.payload = &p.heads[i], &p.heads[i].Origin, &p.acks[i], p.payloads[i][:]
	}
	return p
}

func (s *store) PushRows(ctx context.Context, name string, rows []int64, grad []float32) error {
	k, err := s.lookup("push rows", name, wire.FormRows)
	if err != nil {
		return err
	}
	if err := k.checkRows("push rows", rows, "gradient", len(grad)); err != nil {
		return err
	}
	if err := k.take(ctx, "push rows"); err != nil {
		return err
	}
	defer k.give()
	if k.sent == nil {
		k.sent = newRowsPush(k)
	}
	p := k.sent
	p.split.of(len(k.shards), rows)
	p.split.add(k.rowLen, grad)
	seq, round := k.next()
	p.round = round
	weight := math.Float32frombits(s.weight.Load())
	for i := range p.heads {
		x := &p.split.shards[i]
		p.heads[i] = wire.PushRows{Origin: k.origin(i, seq+1), Round: round, Weight: weight, Rows: uint64(len(x.rows)), WaitMillis: s.waitMillis()}
		p.payloads[i] = [2][]byte{x.code[0].rowNumbers(s.native, x.rows), x.code[1].floats(s.native, x.values)}
	}
	err = p.run(ctx)
	k.pushed(err)
	return err
}

// A rowsPull is one pull of rows. Several may be under way; they are kept for the next ones.
type rowsPull struct {
	*op
	heads    []wire.PullRows
	values   []wire.Value
	payloads [][1][]byte
	split    split
	all      []call // one for each shard; op.calls holds those that are needed
}

func newRowsPull(k *key) *rowsPull {
	n := len(k.shards)
	p := &rowsPull{op: newOp(k.s, "pull rows", k.name, n), heads: make([]wire.PullRows, n), values: make([]wire.Value, n), payloads: make([][1][]byte, n)}
	p.all = make([]call, n)
	return p
}

func (s *store) PullRows(ctx context.Context, name string, rows []int64, out []float32) error {
	k, err := s.lookup("pull rows", name, wire.FormRows)
	if err != nil {
		return err
	}
	if err := k.checkRows("pull rows", rows, "out", len(out)); err != nil {
		return err
	}
	p := takeIdle(k, &k.rowPulls)
	if p == nil {
		p = newRowsPull(k)
	}
	defer keepIdle(k, &k.rowPulls, p)
	p.split.of(len(k.shards), rows)
	seq, round := k.wanted()
	p.round = round
	p.calls = p.all[:0]
	for i := range p.heads {
		x := &p.split.shards[i]
		if len(x.rows) == 0 && len(rows) > 0 {
			continue // no rows at all: one shard after the other is asked for none, so that the pull waits as others do
		}
		values := grow(&x.values, len(x.rows)*k.rowLen)
		p.heads[i] = wire.PullRows{Origin: k.origin(i, seq), Round: round, Rows: uint64(len(x.rows)), WaitMillis: s.waitMillis(), Staleness: s.staleness}
		p.payloads[i][0] = x.code[0].rowNumbers(s.native, x.rows)
		c := call{op: p.op, server: int(k.shards[i].Server), shard: i, request: &p.heads[i], origin: &p.heads[i].Origin,
			answer: &p.values[i], payload: p.payloads[i][:], dst: x.code[1].landing(s.native, values)}
		p.calls = append(p.calls, c)
	}
	if err := p.run(ctx); err != nil {
		return err
	}
	for i := range p.calls {
		c := &p.calls[i]
		x, v := &p.split.shards[c.shard], &p.values[c.shard]
		if v.Codec != wire.CodecFloat32 || v.N != uint64(len(x.values)) || len(c.got) != 4*len(x.values) {
			return &ShardError{Verb: p.verb, Key: k.name, Shard: c.shard, Round: round, Peer: c.peer(),
				Err: fmt.Errorf("%w: got %d values in %d bytes of codec %d, want %d float32", ErrSize, v.N, len(c.got), v.Codec, len(x.values))}
		}
		decodeFloats(s.native, x.values, c.got)
	}
	p.split.scatter(k.rowLen, out)
	return nil
}
