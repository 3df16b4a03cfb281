package shard

// A Loan is a contribution's data where they lie in the memory of its worker, of a dense shard in
// wire.CodecFloat32. The worker waits for the round, and lends the memory meanwhile; when it stops
// waiting it takes the memory back, unless that is claimed. A contribution that was taken back
// before it was added has not come, although Push has said Held. A worker that is killed stops
// without taking anything back: its memory is still mapped here, and Settle copies the contribution
// when the call ends with the connection.
//
// So a contribution is added without a copy, and the round's value is written where the worker
// wants it while it is made. See transport.Loan.
type Loan interface {
	// Claim keeps the owner from taking the memory back until Release; it returns false if the
	// owner has done so.
	Claim() bool
	Release()
	// Over reports whether the owner has taken the memory back.
	Over() bool
	Values() []float32
	// Out is where the value that the contribution is part of belongs; nil if it is to be sent.
	Out() []float32
	// Place says that Out holds the value of this many rounds.
	Place(rounds uint64)
}
