package shardserver

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// partValues is the most values of one FillPart: 4 MiB, small beside a server's memory and large
// beside a frame's cost.
const partValues = 1 << 20

// A fill is one copy of a shard's state to its backup, while no round of the shard closes. Its
// errors end it; the next one begins anew, under a higher number.
type fill struct {
	shard *shard.Shard
	cfg   *shard.Config
	pool  *shard.Pool
	// send sends one message to the backup, and copyOf says between whom, at the time of the message.
	send   func(m wire.Message, payload ...[]byte) error
	copyOf func() wire.Copy
	// base returns the job's optimizer. It is asked after the fill has begun, so that it is not older
	// than the state.
	base func() string

	number uint64
	// part is reused for each message after the first.
	part wire.FillPart
	// arrays is the number of arrays of the state.
	arrays int
}

// run sends a snapshot and its arrays. It describes them in m, which is reused.
func (f *fill) run(m *wire.Fill) error {
	snap, err := f.shard.BeginFill()
	if err != nil {
		return err
	}
	if err := describeFill(m, &snap, f.cfg); err != nil {
		return err
	}
	m.Copy, m.Number, m.Base = f.copyOf(), f.number, f.base()
	f.part, f.arrays = wire.FillPart{Number: f.number}, snap.Arrays()
	open := f.cfg.Form == wire.FormOpen
	if whole := uint64(f.arrays) * f.cfg.Length; !open && whole > 0 && whole <= smallFill {
		m.Whole = uint32(whole)
		return f.sendWhole(m, int(whole))
	}
	if err := f.send(m); err != nil {
		return err
	}
	if open {
		return f.sendRows(snap.Rows)
	}
	return f.sendArrays()
}

// describeFill makes the Fill of a snapshot, but for its Copy, Number and Base.
func describeFill(m *wire.Fill, snap *shard.Snapshot, cfg *shard.Config) (err error) {
	*m = wire.Fill{Members: m.Members[:0], Round: snap.Round, Closed: snap.Generation, Mode: snap.Mode, Rows: snap.Rows,
		Pushed: snap.Pushed, AnySeq: snap.AnySeq, Config: snap.Config, Slots: snap.Slots, Counted: snap.Counted,
		Newest: snap.Newest, Weight: snap.Weight, Kept: snap.Kept, KeptRound: snap.KeptRound, KeptWeight: snap.KeptWeight, Examples: snap.Examples}
	m.Init = wire.InitShard{Origin: wire.Origin{Key: cfg.Key, Shard: cfg.Index}, Form: cfg.Form, Rule: cfg.Rule, Offset: cfg.Offset, Length: cfg.Length,
		RowLen: cfg.RowLen, Size: cfg.Size, Shards: cfg.Shards, Zeros: true, Name: cfg.Name}
	if m.Init.Table, err = cfg.TableOf().Encode(); err != nil {
		return err
	}
	for _, w := range snap.Members {
		m.Members = append(m.Members, wire.FillMember{Node: w.Node, LastSeq: w.LastSeq, Base: w.Base, Examples: w.Examples, Known: w.Known, Newest: w.Newest, Weight: w.Weight,
			Caught: w.Caught})
	}
	m.Left = leftOf(snap.Left)
	if snap.Guard != nil {
		if m.Guard, err = snap.Guard.Encode(); err != nil {
			return err
		}
		m.Norms, m.Barren = snap.Norms, uint32(snap.Barren)
	}
	return nil
}

// replaced is why a fill ends when a Load has replaced the state.
func (f *fill) replaced() error {
	return fmt.Errorf("server: fill of %v: its state was replaced meanwhile", f.cfg)
}

// sendWhole sends a Fill with all arrays of a small shard.
func (f *fill) sendWhole(m *wire.Fill, whole int) error {
	buffer, n := f.pool.Get(4*whole), int(f.cfg.Length)
	defer buffer.Release()
	values := buffer.Float32s(whole)
	for array := range f.arrays {
		if !f.shard.ReadFill(array, 0, values[array*n:(array+1)*n]) {
			return f.replaced()
		}
	}
	return f.send(m, buffer.Bytes(4*whole))
}

// sendPart sends the part that is described.
func (f *fill) sendPart(payload []byte) error {
	f.part.Copy = f.copyOf()
	return f.send(&f.part, payload)
}

// sendRows sends so many rows of an open vocabulary. Without any it sends an empty last part.
func (f *fill) sendRows(rows uint64) error {
	rowLen, part := int(f.cfg.RowLen), &f.part
	each := max(1, partValues/(2+rowLen*f.arrays))
	for {
		part.Count = min(uint64(each), rows-part.From)
		part.Last = part.From+part.Count == rows
		st, ok := f.shard.ReadFillRows(part.From, part.Count)
		if !ok || uint64(st.Rows) != part.Count {
			st.Data.Release()
			return f.replaced()
		}
		var payload []byte
		if st.Rows > 0 {
			payload = st.Data.Bytes(shard.OpenPayloadSize(st.Rows, rowLen, len(st.Slots)))
		}
		err := f.sendPart(payload)
		st.Data.Release()
		if err != nil || part.Last {
			return err
		}
		part.From += part.Count
	}
}

// sendArrays sends the arrays one after the other. An array without values is an empty part, so
// that there is a last one.
func (f *fill) sendArrays() error {
	length, part := f.cfg.Length, &f.part
	buffer := f.pool.Get(4 * int(min(length, partValues)))
	defer buffer.Release()
	for array := range f.arrays {
		part.Array, part.From = uint32(array), 0
		for first := true; first || part.From < length; first = false {
			part.Count = min(partValues, length-part.From)
			part.Last = array == f.arrays-1 && part.From+part.Count == length
			if !f.shard.ReadFill(array, int(part.From), buffer.Float32s(int(part.Count))) {
				return f.replaced()
			}
			if err := f.sendPart(buffer.Bytes(4 * int(part.Count))); err != nil {
				return err
			}
			part.From += part.Count
		}
	}
	return nil
}
