package shardserver

import (
	"context"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/cluster"
)

// A teller tells the scheduler what a lost worker counted. *cluster.Node is one.
type teller interface {
	Counted(ctx context.Context, placement uint64, lost cluster.NodeID, examples uint64) error
}

// settling tells the scheduler what lost workers have counted here, each once, beside the server's other work.
type settling struct {
	s         *Server
	node      teller
	ctx       context.Context
	cancel    context.CancelFunc
	told      map[uint64]bool // or about to be
	placement uint64          // under which
	tells     sync.WaitGroup
}

func newSettling(ctx context.Context, s *Server, node teller) *settling {
	t := &settling{s: s, node: node, told: map[uint64]bool{}}
	t.ctx, t.cancel = context.WithCancel(ctx)
	return t
}

// of takes the lost workers of which the membership asks. The server's shards know that membership already: what they say of
// those workers is final.
func (t *settling) of(placement uint64, lost []uint64) {
	if placement != t.placement { // shards have come here that lack what was pushed to open rounds
		t.placement = placement
		clear(t.told)
	}
	asked := make(map[uint64]bool, len(lost))
	for _, node := range lost {
		asked[node] = true
		if !t.told[node] {
			examples := t.s.Counted(node)
			t.tells.Go(func() { t.tell(placement, node, examples) })
		}
	}
	t.told = asked // the others are settled
}

// tell repeats itself until the scheduler has heard it or the job ends.
func (t *settling) tell(placement, node, examples uint64) {
	for {
		err := t.node.Counted(t.ctx, placement, cluster.NodeID(node), examples)
		if err == nil {
			t.s.cfg.Logger.Info("server: told what a lost worker counted", "node", node, "examples", examples)
			return
		}
		pause := time.NewTimer(tellPause)
		select {
		case <-t.ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
			t.s.cfg.Logger.Warn("server: tell what a lost worker counted", "node", node, "err", err)
		}
	}
}

// tellPause is the time between two attempts.
const tellPause = 500 * time.Millisecond

func (t *settling) close() {
	t.cancel()
	t.tells.Wait()
}
