package worker

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/kvstore"
)

// An arrayHandover brings arrays that at least one worker has to all workers, bit for bit: averages
// of weights to those who join, the best values to all at the end. It does so in rounds of keys of
// the runtime in which the giver alone has a weight.
//
// The examples of a lost worker are not handed over here: the scheduler divides them (division).
type arrayHandover struct {
	store handoverStore
	// tally tells all workers who has the arrays, which has reads from a worker's row. needed
	// says whether that worker asks for them; nil: all do.
	tally  *tally
	has    func(row []float64) bool
	needed func(row []float64) bool
	// what is being handed over, for errors, and prefix that of its keys.
	what, prefix string
	// keyed says that this worker has made the keys. They are made when they are first needed:
	// most runs hand nothing over.
	keyed bool
}

// A handoverStore is what an arrayHandover and its tally need of a kvstore.Store.
type handoverStore interface {
	averager
	Weighted(weight float32, counted bool) kvstore.Pusher
}

// run returns the arrays of the first worker that has them, on all workers alike. They are nil
// where all have them already; found is false where no worker has. Every worker calls it after the
// same step: with its row, and its own arrays or nil. like has the arrays' sizes.
func (h *arrayHandover) run(ctx context.Context, at seat, row []float64, own, like [][]float32) (values [][]float32, found bool, err error) {
	for {
		rows, err := h.tally.exchange(ctx, at, row)
		if err != nil {
			return nil, false, err
		}
		from := slices.IndexFunc(rows, func(row []float64) bool { return row != nil && h.has(row) })
		switch {
		case h.needed != nil && !slices.ContainsFunc(rows, func(row []float64) bool { return row != nil && h.needed(row) }):
			return nil, true, nil
		case from < 0:
			return nil, false, nil
		}
		given := own
		if from != at.rank {
			given = nil
		}
		values, err := h.send(ctx, given, like)
		if err != nil {
			return nil, false, err
		}
		// A worker whose row is in this round has pushed its arrays in all rounds before,
		// so these values are its arrays. One that was lost meanwhile may have pushed a
		// part of them: then another one gives its own.
		if rows, err = h.tally.exchange(ctx, at, row); err != nil {
			return nil, false, err
		}
		if rows[from] != nil {
			return values, true, nil
		}
	}
}

// send pushes own, or nothing if that is nil, and returns what came back.
func (h *arrayHandover) send(ctx context.Context, own, like [][]float32) ([][]float32, error) {
	weight := float32(0)
	if own != nil {
		weight = 1
	}
	pusher, keyed := h.store.Weighted(weight, false), h.keyed
	h.keyed = true
	shared := make([][]float32, len(like))
	group, ctx := errgroup.WithContext(ctx)
	for i := range like {
		array := make([]float32, len(like[i]))
		if own != nil {
			copy(array, own[i])
		}
		shared[i] = array
		group.Go(func() error {
			key := fmt.Sprintf("%s/%d", h.prefix, i)
			if !keyed {
				if err := h.store.InitAverage(ctx, key, make([]float32, len(array))); err != nil {
					return fmt.Errorf("worker: %s: init %s: %w", h.what, key, err)
				}
			}
			if err := pusher.PushPull(ctx, key, [][]float32{array}, [][]float32{array}); err != nil {
				return fmt.Errorf("worker: %s: %w", h.what, err)
			}
			return nil
		})
	}
	return shared, group.Wait()
}
