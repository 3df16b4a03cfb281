package shard

import "github.com/paragon-train/paragon/internal/store/wire"

// A CountedPush is one contribution that a round counts.
type CountedPush struct {
	Node   uint64
	Seq    uint64
	Weight float32
	// Counted is Contribution.Counted: its worker has used the Examples.
	Counted bool
	// Norm and Verdict are the guard's findings.
	Norm     float64
	Verdict  uint8
	Examples uint64
}

// countedOf returns what a round counts of a slot.
func countedOf(x *slot) CountedPush {
	return CountedPush{Node: x.node, Seq: x.seq, Weight: x.weight, Examples: uint64(x.examples), Counted: x.counted, Norm: x.norm, Verdict: uint8(x.verdict)}
}

// A Record replicates one closed round to the shard's backup. It holds the sum of the
// contributions, or the new value, so that the backup's value becomes the same bit for bit.
type Record struct {
	// Round is the round's number, and Generation the one under which it closed.
	Round, Generation uint64
	// Form is the form of the data, a wire.Record constant.
	Form uint8
	// Rows is the number of rows in the data, for wire.RecordRows.
	Rows int
	// Weight is the sum of the weights.
	Weight float64
	Rate   wire.RoundRate
	Norms  wire.Norms
	// Clip is the Decision of a round that was held; nil: it was not.
	Clip *Decision
	// Keep says that the backup keeps the sum, too: see keptSum.
	Keep bool
	// Config is the JSON of the optimizer that was applied (empty: none), if Configured.
	// Otherwise it is the optimizer of the record before.
	Configured bool
	Config     string
	Counts     []CountedPush

	// data is the sum, rows or a copy, of size bytes. With a version its value is the data.
	data    *Buffer
	version *Version
	size    int
	// lent says that the record is being sent. Only Commit may free it then.
	lent bool
}

// examples is how many examples the round's value is of: those of contributions that the guard has
// not refused.
func (r *Record) examples() (sum uint64) {
	for _, c := range r.Counts {
		if !verdict(c.Verdict).refused() {
			sum += c.Examples
		}
	}
	return sum
}

// Bytes returns the data as it is sent. It is valid until Commit.
func (r *Record) Bytes() []byte {
	switch {
	case r.version != nil:
		return r.version.Bytes()
	case r.data != nil:
		return r.data.Bytes(r.size)
	}
	return nil
}
