package kvstore

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore/internal/buffer"
	"github.com/paragon-train/paragon/optim"
)

// pageBytes is about how much of an open vocabulary's shard is sent at once in a save or a load.
const pageBytes = 4 << 20

// idsName returns the name of the tensor that holds the IDs of an open vocabulary's rows.
func idsName(key string) string { return key + "/ids" }

// An openReading reads an open vocabulary, page after page from each shard.
type openReading struct {
	k     *key
	async bool
	state *keyState
	// config is the optimizer's JSON, and known says that an answer has said it.
	config string
	known  bool
	// round is the one that was asked for.
	round uint64
	// from, left and servers are by shard: the first row of the next page, whether there is
	// one, and who answered last.
	from    []uint64
	left    []bool
	servers []int
}

// readOpen is read for an open vocabulary.
func (s *shardStates) readOpen(ctx context.Context, k *key) (*keyState, string, error) {
	seq, round := k.pushes.wanted()
	n := len(k.shards)
	r := &openReading{k: k, async: s.cfg.async, round: round, from: make([]uint64, n), left: make([]bool, n), servers: make([]int, n),
		state: &keyState{savedKey: savedKey{Name: k.name, Form: "open", RowLength: uint64(k.rowLen), Round: round, Table: k.table},
			open: &openState{rowLen: k.rowLen}}}
	for i := range r.left {
		r.left[i] = true
	}
	count := uint64(max(pageBytes/shard.OpenPayloadSize(1, k.rowLen, maxSlots), 1))
	fill := func(c *call, i int) error {
		head := &wire.ReadRows{Origin: k.origin(i, seq), Round: round, From: r.from[i], Count: count, WaitMillis: s.cfg.waitMillis()}
		if !r.left[i] {
			head.Count = 0
		}
		c.request, c.origin, c.answer = head, &head.Origin, &wire.Rows{}
		var b buffer.Aligned
		c.dst = b.Bytes(shard.OpenPayloadSize(int(head.Count), k.rowLen, maxSlots))
		return nil
	}
	for slices.Contains(r.left, true) {
		if err := s.requests.everyShard(ctx, "save", k, fill, r.took); err != nil {
			return nil, "", err
		}
	}
	r.state.Size = uint64(len(r.state.open.ids)) * uint64(k.rowLen)
	return r.state, r.config, nil
}

// took takes a page of shard i.
func (r *openReading) took(c *call, i int) error {
	if err := r.take(c, i); err != nil {
		return &ShardError{Verb: "save", Key: r.k.name, Shard: i, Round: r.round, Peer: c.peer(), Err: err}
	}
	c.got, c.dst = nil, nil
	return nil
}

func (r *openReading) take(c *call, i int) error {
	st, all := c.answer.(*wire.Rows), r.state.open
	rows := int(min(st.Rows, math.MaxInt32))
	if len(st.Slots) > maxSlots || len(c.got) != shard.OpenPayloadSize(rows, r.k.rowLen, len(st.Slots)) {
		return fmt.Errorf("%w: got %d rows with %d slots in %d bytes", ErrSize, st.Rows, len(st.Slots), len(c.got))
	}
	if !r.known {
		r.known = true
		r.state.Slots, r.config = st.Slots, st.Config
		all.values = make([][]float32, 1+len(st.Slots))
		if r.async {
			r.state.Round = st.Round
		}
	}
	if err := r.state.checkShard(st.Slots, st.Round, r.round, r.async); err != nil {
		return err
	}
	// Another server may hold the rows in another order.
	if r.from[i] > 0 && r.servers[i] != c.to.rank() {
		return fmt.Errorf("%w: the first rows came from server %d, which has left the job; save again", ErrConflict, r.servers[i])
	}
	r.servers[i] = c.to.rank()
	all.add(c.got, rows)
	r.from[i] += st.Rows
	r.left[i] = r.left[i] && st.Rows > 0 && r.from[i] < st.Total
	return nil
}

// tensors returns the vocabulary's tensors in a file: rows in the order of their IDs as unsigned
// numbers.
func (o *openState) tensors(k *savedKey) []checkpoint.Tensor {
	order := make([]int32, len(o.ids))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(uint64(o.ids[a]), uint64(o.ids[b])) })
	ids := make([]int64, len(order))
	for i, at := range order {
		ids[i] = o.ids[at]
	}
	list := []checkpoint.Tensor{checkpoint.Int64s(idsName(k.Name), []int{len(ids)}, ids)}
	for i, values := range o.values {
		name := k.Name
		if i > 0 {
			name = slotName(k.Name, k.Slots[i-1])
		}
		list = append(list, checkpoint.Stream(name, checkpoint.F32, k.shape(), func(w io.Writer) error { return writeRows(w, values, o.rowLen, order) }))
	}
	return list
}

// writeRows writes rows of values in an order, in pieces: a table may be as large as the memory.
func writeRows(w io.Writer, values []float32, rowLen int, order []int32) error {
	const piece = 64 << 10
	buffer := make([]byte, 0, piece+4*rowLen)
	for _, at := range order {
		buffer = appendRow(buffer, values, rowLen, at)
		if len(buffer) < piece {
			continue
		}
		if _, err := w.Write(buffer); err != nil {
			return err
		}
		buffer = buffer[:0]
	}
	_, err := w.Write(buffer)
	return err
}

// writeOpen is write for an open vocabulary.
func (s *shardStates) writeOpen(ctx context.Context, k *key, file *checkpoint.File, x *savedKey, opt *optim.Optimizer) error {
	ids := make([]int64, int(x.Size/x.RowLength))
	if err := file.ReadInt64s(idsName(x.Name), ids); err != nil {
		return keyError("load", x.Name, err, "")
	}
	slots, tensors, err := x.readTensors(file, int(x.Size), opt)
	if err != nil {
		return err
	}
	rows := &openState{k.rowLen, ids, tensors}
	// mine has for each shard the indices of its rows.
	mine := make([][]int32, len(k.shards))
	for i, id := range ids {
		to, _ := k.spread.Of(id)
		mine[to] = append(mine[to], int32(i))
	}
	each := max(pageBytes/shard.OpenPayloadSize(1, k.rowLen, len(slots)), 1)
	pages := 1
	for _, m := range mine {
		pages = max(pages, (len(m)+each-1)/each)
	}
	for page := range pages {
		err := s.requests.everyShard(ctx, "load", k, func(c *call, i int) error {
			part := mine[i][min(page*each, len(mine[i])):min((page+1)*each, len(mine[i]))]
			head := &wire.WriteRows{Init: k.initHead(i), Round: x.Round, First: page == 0, Rows: uint64(len(part)), Slots: slots}
			c.request, c.origin, c.answer = head, &head.Init.Origin, &wire.Ack{}
			c.payload = [][]byte{rows.encode(part)}
			return nil
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// checkIDs checks that a file's IDs increase, as tensors writes them, so that each comes once.
func checkIDs(file *checkpoint.File, x *savedKey) error {
	name := idsName(x.Name)
	t, err := file.Tensor(name)
	if err != nil {
		return err
	}
	rows := x.Size / x.RowLength
	if t.DType != checkpoint.I64 || !slices.Equal(t.Shape, []int{int(rows)}) {
		return fmt.Errorf("tensor %s: got %s %v, want %s [%d]", wire.Shown(name), t.DType, t.Shape, checkpoint.I64, rows)
	}
	ids := make([]int64, rows)
	if err := file.ReadInt64s(name, ids); err != nil {
		return err
	}
	for i := 1; i < len(ids); i++ {
		if uint64(ids[i]) <= uint64(ids[i-1]) {
			return fmt.Errorf("tensor %s: [%d]: got %d after %d, want increasing IDs, compared as unsigned numbers", wire.Shown(name), i, uint64(ids[i]), uint64(ids[i-1]))
		}
	}
	return nil
}
