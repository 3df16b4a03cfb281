package worker

import (
	"time"

	"github.com/paragon-train/paragon/adapt"
	"github.com/paragon-train/paragon/kvstore"
)

// A workerWish is how many workers rank 0 would like the job to have, where it may choose that
// (launch --adapt-workers), and what a change of their number has cost.
type workerWish struct {
	// workers is 0 where there is no wish, and reason is for people.
	workers int
	reason  string
	// changes counts those of the membership that this worker has taken part in, and changing
	// is how long all workers waited for them.
	changes  int
	changing time.Duration
}

// drop drops the wish.
func (w *workerWish) drop() { w.workers, w.reason = 0, "" }

// madeChange counts a change of the membership that took so long.
func (w *workerWish) madeChange(took time.Duration) {
	w.changes++
	w.changing += took
}

// changeSeconds is what a change of the membership has cost this worker on average; 0: there was
// none.
func (w *workerWish) changeSeconds() float64 {
	if w.changes == 0 {
		return 0
	}
	return w.changing.Seconds() / float64(w.changes)
}

// choose makes the wish by the goodput that so many workers would have with their best batch.
func (w *workerWish) choose(store adaptingStore, s situation, d *decider) {
	least, most := store.WorkerRange()
	if most == 0 {
		return
	}
	onNode := (s.workers-1)/s.nodes + 1
	choice := adapt.ReplicaChoice{Present: s.workers, Least: least, Most: most, Explored: d.profile.MostReplicas(), ChangeSeconds: w.changeSeconds(), Goodput: func(workers int) float64 {
		c, err := d.goodput(s).Best((workers-1)/onNode+1, workers, s.limitsFor(workers, leastEfficiency))
		if err != nil {
			return 0 // no batch is within the limits
		}
		return c.Goodput
	}}
	to, reason, err := choice.Wish()
	if err != nil {
		// The range has no number in it.
		w.drop()
		return
	}
	w.workers, w.reason = to, reason
}

// An adaptingStore tells where the job runs, and takes reports. A kvstore.Store is one.
type adaptingStore interface {
	Rank() int
	NumWorkers() int
	Topology() kvstore.Topology
	WorkerRange() (least, most int)
	ReportAdaptation(text string) error
}
