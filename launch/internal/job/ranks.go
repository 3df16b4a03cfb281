package job

import (
	"cmp"
	"context"
	"slices"

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
	nodes = slices.DeleteFunc(nodes, func(x control.Node) bool { return x.Role != roleWorker || x.Rank < 0 || x.State == control.NodeRemoved })
	slices.SortFunc(nodes, func(a, b control.Node) int { return cmp.Compare(a.Node, b.Node) })
	var workers []*Node
	for _, n := range w.run.nodes {
		if n.Role == roleWorker && n.member && !n.ended {
			workers = append(workers, n)
		}
	}
	// Where a shell stands before a worker its number says nothing: then those of a host are taken in the order in which they came.
	for _, exact := range []bool{true, false} {
		nodes = slices.DeleteFunc(nodes, func(x control.Node) bool {
			i := slices.IndexFunc(workers, func(n *Node) bool {
				return w.run.hostName(n.host) == x.Host && (!exact || uint32(n.PID) == x.PID)
			})
			if i < 0 {
				return false
			}
			workers[i].rerank(int(x.Rank))
			workers = slices.Delete(workers, i, i+1)
			return true
		})
	}
}

func (n *Node) rerank(rank int) {
	if n.Rank == rank {
		return
	}
	n.Rank = rank
	n.stdout.Rename(n.Name())
	n.stderr.Rename(n.Name())
}
