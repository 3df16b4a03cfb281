package shard

import "github.com/paragon-train/paragon/internal/store/wire"

// A Contribution is one worker's gradient for one round of the shard.
type Contribution struct {
	Generation uint64
	Node       uint64
	// Seq is the number of this push among the worker's pushes to this shard, from 1.
	Seq uint64
	// Round is the round that it belongs to, from 0. It is ignored in async mode.
	Round  uint64
	Weight float32
	// Examples is the number of examples of which the gradient is.
	Examples uint64
	// Counted says that the worker has used the Examples: see Shard.ExamplesOf.
	Counted bool
	// Codec is that of Data, for a dense shard.
	Codec uint8
	// Threshold is for wire.Codec2Bit.
	Threshold float32
	// Rows is the number of rows in Data, for a shard of rows.
	Rows int
	// Size is the number of bytes in Data, for wire.CodecTopK.
	Size int
	// Judged: the worker has compared Norm (of the gradient before compression, divided by the
	// weight) with the guard's limit. So the guard only checks that the values are finite, and
	// remembers Norm. See Version.Limit.
	Judged bool
	Norm   float64
	Step   wire.Step
	// Contributors are the workers of a host whose gradients Data is the sum of, in the order
	// of their nodes, and Node is one of them; none: it is Node's gradient alone. Then Seq,
	// Weight, Examples, Counted, Judged, Norm, Step.Micro and Step.MicroSqr are 0. All
	// contributors are counted or none. Push does not keep the slice.
	Contributors []wire.Contributor
	// Arrived is when the whole contribution was here, by the Meter's clock; 0: when Push is
	// called.
	Arrived int64
	// Data holds the values, as wire.Push or wire.PushRows describes. The shard owns it if Push
	// returns Held or Repeated, the caller otherwise. Nil means no bytes.
	Data *Buffer
	// Loan, unless nil, has the values in place of Data, which is nil. If Push returns Held the
	// shard uses it, until Settle.
	Loan Loan

	// norm is what the guard judges.
	norm float64
}

// A Status is the result of a Push.
type Status int

const (
	// Refused comes with an error.
	Refused Status = iota
	// Held: the contribution counts in its round, once.
	Held
	// Repeated: it came before, and counts once.
	Repeated
	// Ahead: it came too early. Await Turn(c), then push it again.
	Ahead
	// Unlent: it cannot be used where it lies. Push it again with a copy as Data.
	Unlent
)
