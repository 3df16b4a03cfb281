package kvstore

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/observe/shown"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// maxSlots bounds the slots in a file's metadata; no optimizer has as many.
const maxSlots = 4

// savedKey describes one key in a file.
type savedKey struct {
	Name string `json:"name"`
	// Form is one of formName's.
	Form      string `json:"form"`
	Average   bool   `json:"average,omitempty"`
	Size      uint64 `json:"size"`
	RowLength uint64 `json:"row_length,omitempty"`
	// Round is how many rounds have closed.
	Round uint64   `json:"round"`
	Slots []string `json:"slots,omitempty"`
	// Table is the JSON of a shard.Table.
	Table string `json:"table,omitempty"`
	// Shape is of a dense key. Nil: it is not known.
	Shape []int `json:"shape,omitzero"`

	// tensor is the tensor's name in the file, if it is not Name.
	tensor string
}

// tensorName returns the name of the tensor of the key's value.
func (k *savedKey) tensorName() string { return cmp.Or(k.tensor, k.Name) }

// slotName returns the name of the tensor of a slot.
func slotName(key, slot string) string { return key + "/" + slot }

// keyState is all that the servers hold of one key: its value, then its slots.
type keyState struct {
	savedKey
	values [][]float32
	// open is of an open vocabulary, in place of values.
	open *openState
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

// checkShard checks that a shard has the slots of the first one, and is of the round that was asked
// for.
func (x *savedKey) checkShard(slots []string, round, wanted uint64, async bool) error {
	if !slices.Equal(slots, x.Slots) {
		return fmt.Errorf("%w: got slots %s, want %s as shard 0", ErrConflict, shown.Names(slots), shown.Names(x.Slots))
	}
	if !async && round != wanted {
		return fmt.Errorf("%w: got the state after round %d: this worker pushed while it saved", ErrConflict, round)
	}
	return nil
}

// readTensors reads the value and the slots of a key, of n values, from a file. If opt is not nil,
// it makes slots that the file lacks.
func (x *savedKey) readTensors(file *checkpoint.File, n int, opt *optim.Optimizer) (slots []string, tensors [][]float32, _ error) {
	slots = x.Slots
	tensors = make([][]float32, 1+len(slots))
	for i := range tensors {
		name := x.tensorName()
		if i > 0 {
			name = slotName(x.Name, slots[i-1])
		}
		tensors[i] = make([]float32, n)
		if err := file.ReadFloat32s(name, tensors[i]); err != nil {
			return nil, nil, keyError("load", x.Name, err, "")
		}
	}
	if opt != nil {
		for _, slot := range opt.NewState(n).Slots {
			slots, tensors = append(slots[:len(slots):len(slots)], slot.Name), append(tensors, slot.Values)
		}
	}
	return slots, tensors, nil
}

func (k *savedKey) declare() wire.Declare {
	d := wire.Declare{Name: k.Name, Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: k.Size, RowLen: k.RowLength, Table: k.Table}
	switch k.Form {
	case "rows":
		d.Form = wire.FormRows
	case "open":
		d.Form, d.Size = wire.FormOpen, 0
	}
	if k.Average {
		d.Rule = wire.RuleAverage
	}
	return d
}
