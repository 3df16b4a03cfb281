package shard

// A verdict is the guard's decision about a contribution. Backups get it as a number, so its
// constants keep their values.
type verdict uint8

const (
	// accepted: the contribution is added unchanged.
	accepted verdict = iota
	clipped
	tooLarge
	notFinite
)

func (v verdict) refused() bool { return v >= tooLarge }
