// Package rollcall lets all workers of a job agree whether one of them was lost up to a step, and
// whether the membership changes at that step.
//
// Every worker calls the roll after the same step, when the store has acknowledged all that it
// pushed: it pushes to a key of the runtime that it is present, and whether it knows of a pending
// change. The round closes once, over the workers that are alive, so all see the same result. If
// fewer workers answered than were expected, the others were lost, perhaps in the middle of that
// step, or are done and have left: all wait until the scheduler reports that, and call again.
//
// After a change that workers joined, they all find out in the same way who was there before and so
// knows what the others do not.
//
// It takes a round trip between two steps. So package worker calls the roll only before
// evaluations, checkpoints and stops, and at the end of a division. After every step its agreement,
// which travels beside the gradients, tells of the changes that workers knew of while they
// computed.
package rollcall

import (
	"context"
	"fmt"
)

// A Store is what the roll needs of a kvstore.Store.
type Store interface {
	Rank() int
	NumWorkers() int
	InitAverage(ctx context.Context, key string, value []float32) error
	PushPull(ctx context.Context, key string, grads, outs [][]float32) error
	Pending() uint64
	AwaitMembers(ctx context.Context, most int) error
}

// Key is the key that the workers push to.
const Key = "paragon/present"

// The lanes of the key's value begin with those of flags, which any worker may raise; the others are
// for workers.
const (
	// laneChange: there is a pending change.
	laneChange = iota
	// laneCheckpoint and laneEnd: all workers are to stop.
	laneCheckpoint
	laneEnd
	flagLanes
)

// size is the length of the key's value. It is 1 KB, for which a round costs no more than for one
// value. More workers take a round for each perRound of them.
const (
	size     = 256
	perRound = size - flagLanes
)

// flags are what a worker raises, or what any has raised.
type flags [flagLanes]bool

// A Stop says whether all workers stop after a step, and why.
type Stop int

const (
	// NoStop: they go on.
	NoStop Stop = iota
	// StopEnd: a worker was told to end, and the job does not go on without it.
	StopEnd
	// StopCheckpoint: the job was asked to stop with a checkpoint. It comes before StopEnd.
	StopCheckpoint
)

// A Roll belongs to one worker. One goroutine at a time may use it.
type Roll struct {
	store    Store
	expected int
	row      []float32
}

// New gives the key its place. Every worker calls it, one that joins before it is ready, and then
// Expect.
func New(ctx context.Context, store Store) (*Roll, error) {
	r := &Roll{store: store, row: make([]float32, size)}
	if err := store.InitAverage(ctx, Key, r.row); err != nil {
		return nil, fmt.Errorf("init %s: %w", Key, err)
	}
	r.Expect()
	return r, nil
}

// Expect says that all workers of the membership take part from now on: after each change.
func (r *Roll) Expect() { r.expected = r.store.NumWorkers() }

// Call tells whether a change of the membership is to be made now: on all workers alike, after the
// same step. If not, all that are expected have done that step. Nothing else of the store may be
// under way.
func (r *Roll) Call(ctx context.Context) (change bool, err error) {
	change, _, err = r.CallStop(ctx, NoStop)
	return change, err
}

// CallStop is Call, which also tells whether all workers stop now, because wish says so on any of
// them. All have done the step then. Where a change is to be made the wish is for the next call.
func (r *Roll) CallStop(ctx context.Context, wish Stop) (change bool, stop Stop, err error) {
	for {
		present, raised, err := r.round(ctx, wish)
		if err != nil || raised[laneChange] {
			return raised[laneChange], NoStop, err
		}
		if present >= r.expected {
			return false, raised.stop(), nil
		}
		if err := r.store.AwaitMembers(ctx, present); err != nil {
			return false, NoStop, err
		}
		r.expected = present
	}
}

// stop is what the flags say of a stop.
func (f flags) stop() Stop {
	switch {
	case f[laneCheckpoint]:
		return StopCheckpoint
	case f[laneEnd]:
		return StopEnd
	}
	return NoStop
}

// Barrier returns when all workers that live have come to it.
func (r *Roll) Barrier(ctx context.Context) error {
	_, _, err := r.round(ctx, NoStop)
	return err
}

// Survivor returns the lowest rank of a worker that was there before the last change, and whether
// other workers have joined with it: on all workers alike, also if some of them are lost meanwhile.
// lowest is -1 if all have joined with it. Every worker calls it after a change, and says whether
// it was there before.
func (r *Roll) Survivor(ctx context.Context, before bool) (lowest int, joined bool, err error) {
	lowest = -1
	raised, err := r.gather(ctx, flags{laneChange: !before}, before, func(rank int) {
		if lowest < 0 {
			lowest = rank
		}
	})
	return lowest, raised[laneChange], err
}

// round tells how many workers take part, whether any of them has heard of a change, and whether any
// wishes to stop.
func (r *Roll) round(ctx context.Context, wish Stop) (present int, raised flags, err error) {
	own := flags{laneChange: r.store.Pending() != 0, laneCheckpoint: wish == StopCheckpoint, laneEnd: wish == StopEnd}
	raised, err = r.gather(ctx, own, true, func(int) { present++ })
	return present, raised, err
}

// gather makes one round: it tells which flags any worker has raised, and names the ranks that have
// raised their hand, in rising order.
func (r *Roll) gather(ctx context.Context, own flags, hand bool, present func(rank int)) (raised flags, err error) {
	rank, workers := r.store.Rank(), r.store.NumWorkers()
	for first := 0; first < workers; first += perRound {
		clear(r.row)
		for lane, flag := range own {
			if flag {
				r.row[lane] = 1
			}
		}
		if hand && first <= rank && rank < first+perRound {
			r.row[flagLanes+rank-first] = 1
		}
		row := [][]float32{r.row}
		if err := r.store.PushPull(ctx, Key, row, row); err != nil {
			return raised, fmt.Errorf("find out which workers have reached the step: %w", err)
		}
		// The value is the mean of what was pushed: above 0 where anybody pushed 1.
		for lane := range raised {
			raised[lane] = raised[lane] || r.row[lane] > 0
		}
		for lane, v := range r.row[flagLanes:] {
			if v > 0 {
				present(first + lane)
			}
		}
	}
	return raised, nil
}
