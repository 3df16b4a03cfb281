package shard

import "github.com/paragon-train/paragon/internal/store/wire"

// An Error says why the shard refuses a request. Its code is the one that a server sends in a Nack.
type Error struct {
	Code wire.Code
	Text string
}

func (e *Error) Error() string { return "shard: " + e.Text }
