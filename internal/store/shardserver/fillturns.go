package shardserver

import (
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// maxFills is how many backups one server fills at a time. No round of these shards closes
// meanwhile, so it is small beside the number of shards. Those of up to smallFill values take
// hardly longer than the messages are on their way, and there may be very many: there are more at a
// time.
const (
	maxFills      = 4
	maxSmallFills = 64
	smallFill     = 4096
)

// fillTurns bound the fills under way: each holds a token.
type fillTurns struct{ large, small chan struct{} }

// newFillTurns returns turns of which none is taken.
func newFillTurns() *fillTurns {
	return &fillTurns{make(chan struct{}, maxFills), make(chan struct{}, maxSmallFills)}
}

// of returns where a fill of a shard puts its token, and takes it back from.
func (t *fillTurns) of(cfg *shard.Config) chan struct{} {
	if cfg.Form == wire.FormDense && cfg.Length <= smallFill {
		return t.small
	}
	return t.large
}
