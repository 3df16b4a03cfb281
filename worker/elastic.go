package worker

import (
	"context"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/kvstore"
)

// elasticOf returns a store as one whose workers may come and go after a step that all agree on; nil: it is none.
func elasticOf(store kvstore.Store) kvstore.Elastic {
	switch store.Type() {
	case "dist_sync", "dist_device_sync":
		elastic, _ := store.(kvstore.Elastic)
		return elastic
	}
	return nil
}

// joins reports whether this worker does not count yet in a job that runs.
func joins(store kvstore.Store) bool {
	elastic, ok := store.(kvstore.Elastic)
	return ok && elastic.Joining()
}

// weigh says what this worker's contributions count from now on: until the next step's those of this step. Nothing is under way.
func (t *Trainer) weigh(weight uint64) {
	if t.pusher == nil || t.weight != weight || t.told != t.counting {
		t.weight, t.told = weight, t.counting
		t.pusher = t.cfg.Store.Weighted(float32(weight), t.counting)
		t.exchange.pusher = t.pusher
	}
}

// count says whether the weights of the next steps tell the servers which examples were used.
func (t *Trainer) count(counting bool) { t.counting = counting && t.elastic != nil }

// pullFresh brings all values of the store to this worker, which has just become a member.
func (t *Trainer) pullFresh(ctx context.Context) error {
	t.fresh = true
	for i, key := range t.keys {
		outs := t.exchange.outs[i]
		if err := t.cfg.Store.Pull(ctx, key, outs...); err != nil {
			return fmt.Errorf("worker: pull %s: %w", key, err)
		}
		if t.local != nil {
			copy(t.local.anchors[i], outs[0])
		}
	}
	for s, state := range t.cfg.Programs[0].State() {
		if err := t.cfg.Store.Pull(ctx, state.Name, t.stateValues(s)...); err != nil {
			return fmt.Errorf("worker: pull %s: %w", state.Name, err)
		}
	}
	return nil
}

// membersKey is the key by which workers tell each other, after each change, who they are.
//
// A share of numbers is 16 bits in each value, beside a value of 1 from each worker that knows them. The store divides sums by the
// sum of weights; the quotient of two values is free of it, and so of who took part and who was lost meanwhile.
const membersKey = "paragon/members"

const (
	memberLanes  = 1 + 2*pieces               // of one worker: 1, its node, the examples it has used before the division
	membersRound = 28                         // workers in one round
	membersSize  = memberLanes * membersRound // values of the key
	numbersRound = (membersSize - 1) / pieces // numbers in one round
)

// initMembers gives that key its place.
func (t *Trainer) initMembers(ctx context.Context) error {
	if err := t.cfg.Store.InitAverage(ctx, membersKey, make([]float32, membersSize)); err != nil {
		return fmt.Errorf("worker: init %s: %w", membersKey, err)
	}
	return nil
}

// addUp exchanges a row of values, to which every worker adds what it knows.
func (t *Trainer) addUp(ctx context.Context, row []float32) error {
	return t.cfg.Store.PushPull(ctx, membersKey, [][]float32{row}, [][]float32{row})
}

// quotients decodes numbers of a row by the value of 1 beside them.
func quotients(row []float32, one float32, numbers []uint64) {
	var value [pieces]float32
	for i := range numbers {
		for p := range pieces {
			value[p] = float32(math.Round(float64(row[i*pieces+p]) / float64(one)))
		}
		numbers[i] = joinNumber(value[:])
	}
}

// members tells the others which node is of this rank and what it had used before the division, and returns the same of all
// workers. Of one that was lost meanwhile the node is 0.
func (t *Trainer) members(ctx context.Context, rank, workers int, base uint64) (nodes []kvstore.NodeID, bases []uint64, err error) {
	row := make([]float32, membersSize)
	for first := 0; first < workers; first += membersRound {
		clear(row)
		if first <= rank && rank < first+membersRound {
			own := row[(rank-first)*memberLanes:]
			own[0] = 1
			splitNumber(own[1:], uint64(t.elastic.NodeID()))
			splitNumber(own[1+pieces:], base)
		}
		if err := t.addUp(ctx, row); err != nil {
			return nil, nil, fmt.Errorf("worker: tell the others who is rank %d: %w", rank, err)
		}
		for i := first; i < min(first+membersRound, workers); i++ {
			of := row[(i-first)*memberLanes:]
			var numbers [2]uint64
			if of[0] > 0 {
				quotients(of[1:], of[0], numbers[:])
			}
			nodes, bases = append(nodes, kvstore.NodeID(numbers[0])), append(bases, numbers[1])
		}
	}
	return nodes, bases, nil
}

// barrier returns when all workers that live have come to it.
func (t *Trainer) barrier(ctx context.Context) error {
	if t.elastic == nil {
		return t.cfg.Store.Barrier(ctx)
	}
	return t.addUp(ctx, make([]float32, membersSize))
}

// present tells, with nothing else under way, how many workers take part, and whether any of them has heard of a change.
func (t *Trainer) present(ctx context.Context, rank, workers int) (n int, change bool, err error) {
	row := make([]float32, membersSize)
	for first := 0; first < workers; first += membersSize - 1 {
		clear(row)
		if t.elastic.Pending() != 0 {
			row[0] = 1
		}
		if first <= rank && rank < first+membersSize-1 {
			row[1+rank-first] = 1
		}
		if err := t.addUp(ctx, row); err != nil {
			return 0, false, fmt.Errorf("worker: count who has come to the step: %w", err)
		}
		change = change || row[0] > 0
		for _, v := range row[1:] {
			if v > 0 {
				n++
			}
		}
	}
	return n, change, nil
}

// share brings numbers to the workers that do not know them, from those that do, who all have the same. Every worker calls it with as
// many. If nobody knew them, all are 0.
func (t *Trainer) share(ctx context.Context, knows bool, numbers []uint64) error {
	row := make([]float32, membersSize)
	for first := 0; first < len(numbers); first += numbersRound {
		some := numbers[first:min(first+numbersRound, len(numbers))]
		clear(row)
		if knows {
			row[0] = 1
			for i, n := range some {
				splitNumber(row[1+i*pieces:], n)
			}
		}
		if err := t.addUp(ctx, row); err != nil {
			return fmt.Errorf("worker: share numbers: %w", err)
		}
		if clear(some); row[0] > 0 {
			quotients(row[1:], row[0], some)
		}
	}
	return nil
}
