package kvstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/observe/shown"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// pageBytes is about how much of an open vocabulary's shard is sent at once in a save or a load.
const pageBytes = 4 << 20

// idsName returns the name of the tensor that holds the IDs of an open vocabulary's rows.
func idsName(key string) string { return key + "/ids" }

// An openState is all that the servers hold of an open vocabulary, in the order of their answers.
type openState struct {
	rowLen int
	ids    []int64
	values [][]float32 // the value, then the slots
}

// readOpen is read for an open vocabulary: page after page from each shard, shardsAtOnce shards at
// a time.
func (k *key) readOpen(ctx context.Context) (*keyState, string, error) {
	seq, round := k.wanted()
	state := &keyState{savedKey: savedKey{Name: k.name, Form: "open", RowLength: uint64(k.rowLen), Round: round, Table: k.table}}
	all := &openState{rowLen: k.rowLen}
	state.open = all
	config, known := "", false
	count := uint64(max(pageBytes/shard.OpenPayloadSize(1, k.rowLen, maxSlots), 1))
	from := make([]uint64, len(k.shards))
	left := make([]bool, len(k.shards))
	servers := make([]int, len(k.shards))
	for i := range left {
		left[i] = true
	}
	for slices.Contains(left, true) {
		fill := func(c *call, i int) error {
			head := &wire.ReadRows{Origin: k.origin(i, seq), Round: round, From: from[i], Count: count, WaitMillis: k.s.waitMillis()}
			if !left[i] {
				head.Count = 0
			}
			c.request, c.origin, c.answer = head, &head.Origin, &wire.Rows{}
			var r alignedBuffer
			c.dst = r.bytes(shard.OpenPayloadSize(int(head.Count), k.rowLen, maxSlots))
			return nil
		}
		done := func(c *call, i int) error {
			st := c.answer.(*wire.Rows)
			fail := func(cause error, format string, args ...any) error {
				return &ShardError{Verb: "save", Key: k.name, Shard: i, Round: round, Peer: c.peer(), Err: fmt.Errorf("%w: "+format, append([]any{cause}, args...)...)}
			}
			rows := int(min(st.Rows, math.MaxInt32))
			if len(st.Slots) > maxSlots || len(c.got) != shard.OpenPayloadSize(rows, k.rowLen, len(st.Slots)) {
				return fail(ErrSize, "got %d rows with %d slots in %d bytes", st.Rows, len(st.Slots), len(c.got))
			}
			if !known {
				known = true
				state.Slots, config = st.Slots, st.Config
				all.values = make([][]float32, 1+len(st.Slots))
				if k.s.async {
					state.Round = st.Round
				}
			}
			if !slices.Equal(st.Slots, state.Slots) {
				return fail(ErrConflict, "got slots %s, want %s as shard 0", shown.Names(st.Slots), shown.Names(state.Slots))
			}
			if !k.s.async && st.Round != round {
				return fail(ErrConflict, "got the state after round %d: this worker pushed while it saved", st.Round)
			}
			if from[i] > 0 && servers[i] != c.to.rank() { // another server may hold the rows in another order
				return fail(ErrConflict, "the first rows came from server %d, which has left the job; save again", servers[i])
			}
			servers[i] = c.to.rank()
			all.add(c.got, rows)
			from[i] += st.Rows
			left[i] = left[i] && st.Rows > 0 && from[i] < st.Total
			c.got, c.dst = nil, nil
			return nil
		}
		if err := k.s.requests.everyShard(ctx, "save", k, fill, done); err != nil {
			return nil, "", err
		}
	}
	state.Size = uint64(len(all.ids)) * uint64(k.rowLen)
	return state, config, nil
}

// add appends an answer's rows.
func (o *openState) add(b []byte, rows int) {
	for range rows {
		o.ids = append(o.ids, int64(binary.LittleEndian.Uint64(b)))
		b = b[8:]
	}
	for k := range o.values {
		for range rows * o.rowLen {
			o.values[k] = append(o.values[k], math.Float32frombits(binary.LittleEndian.Uint32(b)))
			b = b[4:]
		}
	}
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
		list = append(list, checkpoint.Stream(name, checkpoint.F32, k.shape(), func(w io.Writer) error {
			buffer := make([]byte, 0, 64<<10+4*o.rowLen)
			for _, at := range order {
				for _, v := range values[int(at)*o.rowLen : (int(at)+1)*o.rowLen] {
					buffer = binary.LittleEndian.AppendUint32(buffer, math.Float32bits(v))
				}
				if len(buffer) >= 64<<10 {
					if _, err := w.Write(buffer); err != nil {
						return err
					}
					buffer = buffer[:0]
				}
			}
			_, err := w.Write(buffer)
			return err
		}))
	}
	return list
}

// writeOpen is write for an open vocabulary.
func (k *key) writeOpen(ctx context.Context, file *checkpoint.File, x *savedKey, opt *optim.Optimizer) error {
	rows := int(x.Size / x.RowLength)
	ids := make([]int64, rows)
	if err := file.ReadInt64s(idsName(x.Name), ids); err != nil {
		return keyError("load", x.Name, err, "")
	}
	slots := x.Slots
	tensors := make([][]float32, 1+len(slots))
	for i := range tensors {
		name := x.Name
		if i > 0 {
			name = slotName(x.Name, slots[i-1])
		}
		tensors[i] = make([]float32, x.Size)
		if err := file.ReadFloat32s(name, tensors[i]); err != nil {
			return keyError("load", x.Name, err, "")
		}
	}
	if opt != nil {
		for _, slot := range opt.NewState(int(x.Size)).Slots {
			slots, tensors = append(slots[:len(slots):len(slots)], slot.Name), append(tensors, slot.Values)
		}
	}
	mine := make([][]int32, len(k.shards)) // by shard: indices of its rows
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
		err := k.s.requests.everyShard(ctx, "load", k, func(c *call, i int) error {
			part := mine[i][min(page*each, len(mine[i])):min((page+1)*each, len(mine[i]))]
			head := &wire.WriteRows{Init: k.initHead(i), Round: x.Round, First: page == 0, Rows: uint64(len(part)), Slots: slots}
			c.request, c.origin, c.answer = head, &head.Init.Origin, &wire.Ack{}
			b := make([]byte, 0, shard.OpenPayloadSize(len(part), k.rowLen, len(slots)))
			for _, at := range part {
				b = binary.LittleEndian.AppendUint64(b, uint64(ids[at]))
			}
			for _, values := range tensors {
				for _, at := range part {
					for _, v := range values[int(at)*k.rowLen : (int(at)+1)*k.rowLen] {
						b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
					}
				}
			}
			c.payload = [][]byte{b}
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
