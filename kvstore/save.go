package kvstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/observe/shown"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// Save writes a safetensors file. For each key it has the tensor "<key>" (with the shape given to
// SetShape, else [size]; rows × row length for rows) and, for each slot of the optimizer,
// "<key>/<slot>" with the same shape. For an open vocabulary these hold the rows that were made,
// and "<key>/ids" holds their IDs, in increasing order as unsigned numbers. The metadata are
//
//	paragon.store      "2", the version of this layout; "1" had neither shapes nor checksums
//	paragon.optimizer  the optimizer's JSON, with the rates of SetLearningRate; absent if there was no optimizer
//	paragon.keys       JSON list of savedKey, by name
const (
	metaStore     = "paragon.store"
	metaOptimizer = "paragon.optimizer"
	metaKeys      = checkpoint.StoreKeys
	layout        = "2"
	oldLayout     = "1"
)

// savedKey describes one key in a file.
type savedKey struct {
	Name      string   `json:"name"`
	Form      string   `json:"form"` // "dense", "rows" or "open"
	Average   bool     `json:"average,omitempty"`
	Size      uint64   `json:"size"`
	RowLength uint64   `json:"row_length,omitempty"`
	Round     uint64   `json:"round"` // rounds closed
	Slots     []string `json:"slots,omitempty"`
	Table     string   `json:"table,omitempty"` // JSON of shard.Table
	Shape     []int    `json:"shape,omitzero"`  // of a dense key; nil: not known

	tensor string // the tensor's name in the file, if it is not Name
}

func (s *store) Save(ctx context.Context, uri string) error {
	if err := checkTarget(uri); err != nil { // before any request to the servers
		return fmt.Errorf("kvstore: save %s: %w", uri, err)
	}
	n, err := s.Snapshot(ctx)
	if err != nil {
		return err
	}
	if err := n.Wait(); err != nil {
		return err
	}
	return n.Write(ctx, uri)
}

// tensorName returns the name of the tensor of the key's value.
func (k *savedKey) tensorName() string { return cmp.Or(k.tensor, k.Name) }

// slotName returns the name of the tensor of a slot.
func slotName(key, slot string) string { return key + "/" + slot }

// keyState is all that the servers hold of one key: its value, then its slots.
type keyState struct {
	savedKey
	values [][]float32
	open   *openState // of an open vocabulary, in place of values
}

func (k *savedKey) shape() []int {
	if k.Shape != nil {
		return k.Shape
	}
	if k.RowLength > 0 {
		return []int{int(k.Size / k.RowLength), int(k.RowLength)}
	}
	return []int{int(k.Size)}
}

// maxSlots bounds the slots in a file's metadata; no optimizer has as many.
const maxSlots = 4

// read reads a key's value and slots from its shards, as of the last round that this worker has
// pushed to, and the optimizer's JSON.
func (k *key) read(ctx context.Context) (*keyState, string, error) {
	if k.form == wire.FormOpen {
		return k.readOpen(ctx)
	}
	slots := maxSlots
	k.s.mu.Lock()
	if cfg := k.s.optimizer; cfg != nil {
		if o, err := optim.New(*cfg); err == nil {
			slots = len(o.SlotNames())
		}
	}
	k.s.mu.Unlock()
	if k.rule == wire.RuleAverage {
		slots = 0
	}
	seq, round := k.wanted()
	state := &keyState{savedKey: savedKey{Name: k.name, Form: "dense", Average: k.rule == wire.RuleAverage, Size: uint64(k.size),
		RowLength: uint64(k.rowLen), Round: round, Table: k.table, Shape: k.shapeOf()}}
	if k.form == wire.FormRows {
		state.Form = "rows"
	}
	config := ""
	fill := func(c *call, i int) error {
		head := &wire.ReadState{Origin: k.origin(i, seq), Round: round, WaitMillis: k.s.waitMillis()}
		c.request, c.origin, c.answer = head, &head.Origin, &wire.State{}
		size := 4 * int(k.shards[i].Length)
		if err := k.fitsFrame("save", i, size); err != nil {
			return err
		}
		var r alignedBuffer
		c.dst = r.bytes(min(size*(1+slots), wire.MaxPayload))
		return nil
	}
	done := func(c *call, i int) error {
		st := c.answer.(*wire.State)
		n := int(k.shards[i].Length)
		fail := func(cause error, format string, args ...any) error {
			return &ShardError{Verb: "save", Key: k.name, Shard: i, Round: round, Peer: c.peer(), Err: fmt.Errorf("%w: "+format, append([]any{cause}, args...)...)}
		}
		if st.N != uint64(n) || len(c.got) != 4*n*(1+len(st.Slots)) {
			return fail(ErrSize, "got %d values with %d slots in %d bytes, want %d values", st.N, len(st.Slots), len(c.got), n)
		}
		if i == 0 {
			state.Slots, config = st.Slots, st.Config
			state.values = make([][]float32, 1+len(st.Slots))
			for j := range state.values {
				state.values[j] = make([]float32, k.size)
			}
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
		for j, values := range state.values {
			part := c.got[4*n*j : 4*n*(j+1)]
			if k.s.native {
				k.putShardValues(i, values, viewFloats(part))
				continue
			}
			own := make([]float32, n)
			decodeFloats(false, own, part)
			k.putShardValues(i, values, own)
		}
		c.got, c.dst = nil, nil
		return nil
	}
	if err := k.s.requests.everyShard(ctx, "save", k, fill, done); err != nil {
		return nil, "", err
	}
	return state, config, nil
}

// viewFloats views the bytes of an alignedBuffer as values in this machine's byte order.
func viewFloats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
