package job

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
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
		answer, err := w.run.ask(ctx, Request{Op: "status"})
		var status struct {
			Nodes []ranked `json:"nodes"`
		}
		if err == nil {
			err = json.Unmarshal(answer, &status)
		}
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

// A ranked is a node, as the scheduler knows it.
type ranked struct {
	Node  uint64 `json:"node"`
	Role  string `json:"role"`
	Rank  int    `json:"rank"`
	Host  string `json:"host"`
	PID   int    `json:"pid"`
	State string `json:"state"`
}

// rename gives workers the ranks that the scheduler knows them by.
func (w *watch) rename(nodes []ranked) {
	nodes = slices.DeleteFunc(nodes, func(x ranked) bool { return x.Role != roleWorker || x.Rank < 0 || x.State == "removed" })
	slices.SortFunc(nodes, func(a, b ranked) int { return cmp.Compare(a.Node, b.Node) })
	var workers []*Node
	for _, n := range w.run.nodes {
		if n.Role == roleWorker && n.member && !n.ended {
			workers = append(workers, n)
		}
	}
	// Where a shell stands before a worker its number says nothing: then those of a host are taken in the order in which they came.
	for _, exact := range []bool{true, false} {
		nodes = slices.DeleteFunc(nodes, func(x ranked) bool {
			i := slices.IndexFunc(workers, func(n *Node) bool {
				return w.run.hostName(n.host) == x.Host && (!exact || n.PID == x.PID)
			})
			if i < 0 {
				return false
			}
			workers[i].rerank(x.Rank)
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
