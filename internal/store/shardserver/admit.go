package shardserver

import (
	"context"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// admit checks the sender. A request of a generation that the server does not know yet waits for
// it: workers often hear of a change first, and a refusal would cost them a round trip and a line
// in the log. One of an older generation is refused at once, since its round is no one's any more.
func (s *Server) admit(ctx context.Context, c *call, from senders) error {
	o := c.origin
	v := s.membership.Load()
	if o.Generation > v.generation {
		ctx, cancel := context.WithTimeout(ctx, s.cfg.CatchUp)
		defer cancel()
		for ; o.Generation > v.generation; v = s.membership.Load() {
			select {
			case <-v.replaced:
			case <-s.done:
				return s.ended()
			case <-ctx.Done():
				return refuse(wire.CodeStaleGeneration, "%v: sender's generation %d, ours still %d", c.kind, o.Generation, v.generation)
			}
		}
	}
	if o.Generation < v.generation {
		return refuse(wire.CodeStaleGeneration, "%v: stale generation: sender's %d, ours %d", c.kind, o.Generation, v.generation)
	}
	w := v.workers[o.Node]
	if w == nil {
		return refuse(wire.CodeUnknownNode, "%v: node %d is not a worker of generation %d", c.kind, o.Node, v.generation)
	}
	if w.joins {
		if from != joiningToo {
			return refuse(wire.CodeUnsupported, "%v: %s is joining and not yet a member", c.kind, w)
		}
	} else if w.rank != o.Rank {
		return refuse(wire.CodeConflict, "%v: node %d is rank %d in generation %d, got rank %d", c.kind, o.Node, w.rank, v.generation, o.Rank)
	}
	w.heard.Store(c.arrived)
	return nil
}

// senders are those who may send requests of one kind.
type senders uint8

const (
	// members are the workers of the current generation.
	members senders = iota
	// joiningToo are members, and workers that are joining: the request changes nothing.
	// SetOptimizer is one of these if the same optimizer is set already.
	joiningToo
	// otherServers are the shards' primaries. Each request says of which placement it is.
	otherServers
)
