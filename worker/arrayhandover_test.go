package worker

import (
	"context"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
)

// countedStore counts the keys that were made.
type countedStore struct {
	handoverStore
	made *sync.Map
}

func (c countedStore) InitAverage(ctx context.Context, key string, value []float32) error {
	c.made.Store(key, true)
	return c.handoverStore.InitAverage(ctx, key, value)
}

// Arrays of one worker come to all bit for bit, where somebody lacks them; where nobody has them,
// all hear that.
func TestArraysOfOneWorkerComeToAll(t *testing.T) {
	stores := jobtest.New(t, jobtest.Config{Workers: 3, Servers: 2}).Stores(t, "dist_sync")
	own := [][]float32{{0.1, -3e-30}, {7}}
	var group errgroup.Group
	for rank, store := range stores {
		group.Go(func() error { return handOver(t, rank, store, own) })
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

func handOver(t *testing.T, rank int, store kvstore.Store, own [][]float32) error {
	var made sync.Map
	counted := countedStore{store, &made}
	who, err := newTally(t.Context(), store, "test", 1)
	if err != nil {
		return err
	}
	h := arrayHandover{store: counted, tally: who, what: "test", prefix: "paragon/arrays",
		has: func(row []float64) bool { return row[0] == 1 }, needed: func(row []float64) bool { return row[0] == 0 }}
	at := seat{rank, 3}
	for _, round := range []struct {
		name  string
		has   []bool
		want  [][]float32
		found bool
	}{
		{"all have them", []bool{true, true, true}, nil, true},
		{"one has them", []bool{false, false, true}, own, true},
		{"two have them", []bool{true, false, true}, own, true},
		{"nobody has them", []bool{false, false, false}, nil, false},
	} {
		row, mine := []float64{0}, [][]float32(nil)
		if round.has[rank] {
			row[0], mine = 1, own
		}
		got, found, err := h.run(t.Context(), at, row, mine, own)
		if err != nil {
			return err
		}
		if found != round.found || !slices.EqualFunc(got, round.want, slices.Equal) {
			t.Errorf("rank %d, %s: got %v, found %t; want %v, found %t", rank, round.name, got, found, round.want, round.found)
		}
		if _, keyed := made.Load("paragon/arrays/0"); keyed != h.keyed {
			t.Errorf("rank %d, %s: keys were made: %t, want that only where something was handed over", rank, round.name, keyed)
		}
	}
	return nil
}
