package kvstore

import "github.com/paragon-train/paragon/checkpoint"

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
