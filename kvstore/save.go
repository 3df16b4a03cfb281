package kvstore

import (
	"cmp"
	"context"
	"fmt"

	"github.com/paragon-train/paragon/checkpoint"
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
	Form      string   `json:"form"` // see formName
	Average   bool     `json:"average,omitempty"`
	Size      uint64   `json:"size"`
	RowLength uint64   `json:"row_length,omitempty"`
	Round     uint64   `json:"round"` // rounds closed
	Slots     []string `json:"slots,omitempty"`
	Table     string   `json:"table,omitempty"` // JSON of shard.Table
	Shape     []int    `json:"shape,omitzero"`  // of a dense key; nil: not known

	// tensor is the tensor's name in the file, if it is not Name.
	tensor string
}

// A checkpoints writes the job's state into files, and reads it back.
type checkpoints struct {
	cfg         *settings
	requests    *requests
	member      *membership
	keys        *keyTable
	rules       *roundRules
	initialiser *initialiser
	control     *control
	states      *shardStates
}

// Save writes all parameters and optimizer state into one file.
func (s *checkpoints) Save(ctx context.Context, uri string) error {
	if err := checkTarget(uri); err != nil {
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

// maxSlots bounds the slots in a file's metadata; no optimizer has as many.
const maxSlots = 4
