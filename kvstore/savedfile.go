package kvstore

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/observe/shown"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A fileCheck compares a file of Save with what this worker has, before anything is loaded.
type fileCheck struct {
	file *checkpoint.File
	keys *keyTable
	// optimizer is the one that is set, and slots are its; nil: none is.
	optimizer *optim.Config
	slots     []string
}

// checkFile reads a file's metadata and compares it with the file's tensors, with the keys that
// this worker has initialised, and with the optimizer that it has set. It returns the saved keys,
// and the saved optimizer, which is nil where there was none.
func checkFile(file *checkpoint.File, keys *keyTable, now *optim.Config) ([]savedKey, *optim.Config, error) {
	saved, cfg, err := readMetadata(file)
	if err != nil {
		return nil, nil, err
	}
	c := &fileCheck{file: file, keys: keys, optimizer: now}
	if now != nil {
		o, err := optim.New(*now)
		if err != nil {
			return nil, nil, err
		}
		c.slots = o.SlotNames()
	}
	if err := sameVelocity(cfg, now); err != nil {
		return nil, nil, err
	}
	found := map[string]*savedKey{}
	for i := range saved {
		x := &saved[i]
		if err := wire.CheckKeyName(x.Name); err != nil {
			return nil, nil, fmt.Errorf("%s in the metadata: entry %d: %w", metaKeys, i, err)
		}
		if c.renamedStatistic(x) {
			x.tensor, x.Name = x.Name, x.Name[len(oldStatistics):]
		}
		if found[x.Name] != nil {
			return nil, nil, fmt.Errorf("%s in the metadata: entry %d: got the name %s twice", metaKeys, i, wire.Shown(x.Name))
		}
		found[x.Name] = x
		if err := c.checkSaved(x); err != nil {
			return nil, nil, err
		}
	}
	for _, k := range keys.sorted() {
		x := found[k.name]
		if x == nil {
			return nil, nil, fmt.Errorf("key %s: %w: this worker has initialised it, and the file does not hold it", wire.Shown(k.name), ErrUnknownKey)
		}
		d := x.declare()
		if err := k.checkSame(&d); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("key %s: the file holds %s", wire.Shown(k.name), describe(d.Form, d.Rule, d.Size, d.RowLen)), err)
		}
	}
	return saved, cfg, nil
}

// sameVelocity refuses a file whose velocities are of another kind than this worker's optimizer
// would take them for.
func sameVelocity(saved, now *optim.Config) error {
	if saved == nil || now == nil || saved.Momentum == 0 || now.Momentum == 0 || saved.Velocity == now.Velocity {
		return nil
	}
	return fmt.Errorf("%s in the metadata: %w: the file has velocities of Velocity %q, and this worker's optimizer wants those of %q: "+
		"set it to what the file has (paragon.torch's servers have \"gradients\")", metaOptimizer, ErrConflict, saved.Velocity, now.Velocity)
}

// readMetadata reads what a file says of its keys and its optimizer.
func readMetadata(file *checkpoint.File) (saved []savedKey, cfg *optim.Config, _ error) {
	meta := file.Metadata()
	switch got := meta[metaStore]; {
	case got != layout && got != oldLayout:
		return nil, nil, fmt.Errorf("%s in the metadata: got %s, want %q or %q: Save did not write this file", metaStore, shown.Name(got), layout, oldLayout)
	case got == layout && !file.HasChecksums():
		return nil, nil, fmt.Errorf("%w: it has no checksums, and a file with %s %q in the metadata must have them", checkpoint.ErrDamaged, metaStore, layout)
	}
	if err := json.Unmarshal([]byte(meta[metaKeys]), &saved); err != nil {
		return nil, nil, fmt.Errorf("%s in the metadata: %w", metaKeys, err)
	}
	if text := meta[metaOptimizer]; text != "" {
		c, err := optim.Decode([]byte(text))
		if err != nil {
			return nil, nil, fmt.Errorf("%s in the metadata: %w", metaOptimizer, err)
		}
		cfg = &c
	}
	return saved, cfg, nil
}

// checkSaved checks what a file says of one key, and that its tensors are as it says. Sizes are
// bounded before anything is allocated for them.
func (c *fileCheck) checkSaved(x *savedKey) error {
	rows, open := x.Form == "rows" || x.Form == "open", x.Form == "open"
	if x.Size == 0 && !open || x.Size > math.MaxInt/16 || !rows && x.Form != "dense" || rows != (x.RowLength > 0) || rows && x.Size%x.RowLength != 0 || rows && x.Average {
		return fmt.Errorf("key %s: got form %s, %d values in rows of %d, average %v", wire.Shown(x.Name), shown.Name(x.Form), x.Size, x.RowLength, x.Average)
	}
	if err := x.checkShape(c.keys.get(x.Name)); err != nil {
		return fmt.Errorf("key %s: %w", wire.Shown(x.Name), err)
	}
	if _, err := shard.DecodeTable(x.Table); err != nil || !rows && x.Table != "" {
		return fmt.Errorf("key %s: the table %s: %w", wire.Shown(x.Name), wire.Shown(x.Table), cmp.Or(err, errors.New("got one for a dense key, want none")))
	}
	if len(x.Slots) > maxSlots {
		return fmt.Errorf("key %s: got %d slots, want at most %d", wire.Shown(x.Name), len(x.Slots), maxSlots)
	}
	if open {
		if err := checkIDs(c.file, x); err != nil {
			return fmt.Errorf("key %s: %w", wire.Shown(x.Name), err)
		}
	}
	for j := -1; j < len(x.Slots); j++ {
		name := x.tensorName()
		if j >= 0 {
			name = slotName(x.Name, x.Slots[j])
		}
		if err := checkTensor(c.file, name, x); err != nil {
			return err
		}
	}
	if c.optimizer != nil && !x.Average && len(x.Slots) > 0 && !slices.Equal(x.Slots, c.slots) {
		return fmt.Errorf("key %s: %w: got the optimizer state %s, want %q of %s", wire.Shown(x.Name), ErrConflict, shown.Names(x.Slots), c.slots, c.optimizer.Name)
	}
	return nil
}

// oldStatistics is the prefix of the names of running statistics, as package worker wrote them in
// files of layout 1.
const oldStatistics = "state/"

// renamedStatistic reports whether a saved key is a running statistic under its old name.
func (c *fileCheck) renamedStatistic(x *savedKey) bool {
	name, old := strings.CutPrefix(x.Name, oldStatistics)
	return old && x.Average && c.keys.get(x.Name) == nil && c.keys.get(name) != nil
}

// checkTensor checks that a file has this tensor, with the key's shape.
func checkTensor(file *checkpoint.File, name string, x *savedKey) error {
	t, err := file.Tensor(name)
	if err != nil {
		return err
	}
	if t.DType != checkpoint.F32 || !slices.Equal(t.Shape, x.shape()) {
		return fmt.Errorf("tensor %s: got %s %v, want %s %v", wire.Shown(name), t.DType, t.Shape, checkpoint.F32, x.shape())
	}
	return nil
}
