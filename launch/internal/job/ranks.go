package job

import (
	"context"

	"github.com/paragon-train/paragon/internal/control"
)

// learnRanks asks the scheduler which rank each worker has now: after a change others than the launcher's numbers. The lines of the
// workers' output carry them.
func (w *watch) learnRanks() {
	if w.ranking {
		w.rankAgain = true
		return
	}
	w.ranking = true
	w.start(func(ctx context.Context) func() {
		var status control.Status
		err := w.run.ask(ctx, control.Request{Op: control.OpStatus}, &status)
		return func() {
			w.ranking = false
			if err == nil { // else the old names stay
				w.rename(status.Nodes)
			}
			if w.rankAgain && ctx.Err() == nil {
				w.rankAgain = false
				w.learnRanks()
			}
		}
	})
}

// rename gives workers the ranks that the scheduler knows them by.
func (w *watch) rename(nodes []control.Node) {
	for _, x := range nodes {
		n := w.run.nodeOf(x.Process)
		if n != nil && n.Role == roleWorker && n.member && !n.ended && x.Rank >= 0 && x.State != control.NodeRemoved {
			n.rerank(int(x.Rank))
		}
	}
}

func (n *Node) rerank(rank int) {
	if n.Rank == rank {
		return
	}
	n.Rank = rank
	n.stdout.Rename(n.source())
	n.stderr.Rename(n.source())
}
