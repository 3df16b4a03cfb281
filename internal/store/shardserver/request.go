package shardserver

import "github.com/paragon-train/paragon/internal/store/wire"

// A request says what a call is about. It is set by prepare and does not change until end.
type request struct {
	kind wire.Kind
	// origin is the sender, in the head; nil for requests of other servers.
	origin *wire.Origin
	// entry is the shard, if requests of this kind name one.
	entry *entry
}
