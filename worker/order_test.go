package worker_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/sampler"
	"github.com/paragon-train/paragon/worker"
)

// inBlocks is a data set in the blocks of TestACheckpointsOrderGoesOn.
type inBlocks struct{ data.Dataset }

func (inBlocks) Blocks() []int { return []int{0, 7, 20, 21, 50} }

// A run that was stopped in the middle of an epoch and is resumed with another order ends with the
// bits of the run that was not stopped: the checkpoint's order goes on, and the log says so.
func TestACheckpointsOrderGoesOn(t *testing.T) {
	blocks := sampler.Blocks(inBlocks{}.Blocks(), 2)
	for _, c := range []struct {
		first, later sampler.Order
		inData       bool // the data set says what its blocks are
	}{
		{sampler.Permutation, sampler.Permutation, false},
		{sampler.Permutation, sampler.Contiguous, false},
		{sampler.Contiguous, sampler.Permutation, false},
		{blocks, sampler.Blocks([]int{0, 7, 20, 21, 50}, 1), false},
		{blocks, sampler.Permutation, true},
	} {
		t.Run(fmt.Sprintf("%v then %v", c.first, c.later), func(t *testing.T) {
			whole := newRig(t, rigConfig{order: c.first})
			if _, err := worker.Fit(t.Context(), whole.cfg); err != nil {
				t.Fatal(err)
			}
			dir, stop := t.TempDir(), make(chan struct{})
			stopped := newRig(t, rigConfig{order: c.first})
			stopped.cfg.Stop, stopped.cfg.Checkpoint.Dir = stop, dir
			stopped.cfg.Observers = []worker.Observer{&stopAfter{step: 10, stop: stop}}
			if _, err := worker.Fit(t.Context(), stopped.cfg); !errors.Is(err, worker.ErrStopped) {
				t.Fatalf("got error %v, want ErrStopped", err)
			}
			manifest, err := os.ReadFile(filepath.Join(dir, "step-00000011", "complete.json"))
			if err != nil || !strings.Contains(string(manifest), fmt.Sprintf("%q: %q", "order", c.first)) {
				t.Errorf("the checkpoint has %s, %v, want the order %v", manifest, err, c.first)
			}
			var log bytes.Buffer
			resumed := newRig(t, rigConfig{order: c.later, blocks: c.inData, logger: slog.New(slog.NewTextHandler(&log, nil))})
			resumed.cfg.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true}
			if _, err := worker.Fit(t.Context(), resumed.cfg); err != nil {
				t.Fatal(err)
			}
			if i := firstDifference(resumed.values(), whole.values()); i >= 0 {
				t.Errorf("value %d differs from the run that was not stopped", i)
			}
			said := strings.Contains(log.String(), "the order of the examples is that of the checkpoint, to the end of this run")
			if want := c.first.String() != c.later.String(); said != want {
				t.Errorf("the log says that the order is the checkpoint's: %v, want %v:\n%s", said, want, &log)
			}
		})
	}
}

// An order that the feed cannot have is refused with what it is.
func TestAnOrderThatTheFeedCannotHaveIsRefused(t *testing.T) {
	dir := t.TempDir()
	first := newRig(t, rigConfig{order: sampler.Blocks([]int{0, 7, 20}, 2)})
	first.cfg.Checkpoint.Dir, first.cfg.MaxSteps = dir, 3
	if _, err := worker.Fit(t.Context(), first.cfg); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		order sampler.Order
		plain bool
		want  string
	}{
		"another order": {sampler.Permutation, false, "it is of other blocks than those known (permutation)"},
		"other blocks":  {sampler.Blocks([]int{0, 8, 20}, 2), false, "it is of other blocks than those known (blocks of 3, window 2"},
		"a plain feed":  {sampler.Permutation, true, "is not a worker.OrderedFeed"},
	} {
		t.Run(name, func(t *testing.T) {
			second := newRig(t, rigConfig{order: c.order})
			if second.cfg.Checkpoint = (worker.CheckpointConfig{Dir: dir, Resume: true}); c.plain {
				second.cfg.Feed = plainFeed{second.feed}
			}
			if _, err := worker.Fit(t.Context(), second.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Fit: got error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := worker.NewPartition(10, 2, 1, 0, sampler.Ordered(sampler.Blocks([]int{0, 11}, 1))); err == nil {
		t.Error("NewPartition of 10 examples with a block from 11 on: got no error")
	}
}

// Workers that begin together with different orders would use some examples twice and some not.
func TestWorkersBeginWithTheSameOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := runElastic(t, elasticPlan{workers: 2, servers: 1, examples: 20, batch: 3, epochs: 1,
			change: func(w *elasticWorker, _ *worker.FitConfig) {
				if w.store.Rank() == 1 {
					if err := w.Reorder(sampler.Contiguous); err != nil {
						t.Error(err)
					}
				}
			}})
		want := `the order of this worker's examples is "contiguous", and that of rank 0 "permutation"`
		if err := j.workers[1].err; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("rank 1: got error %v, want one with %q", err, want)
		}
	})
}

// byClass returns the images of a set, those of each class behind each other.
func byClass(t *testing.T, set *data.ImageSet) *data.ImageSet {
	t.Helper()
	var pixels, labels []uint8
	for class := range set.Classes() {
		for i := range set.Len() {
			if set.Label(i) == class {
				pixels, labels = append(pixels, set.Pixels(i)...), append(labels, uint8(class))
			}
		}
	}
	sorted, err := data.NewImageSet(set.Shape(), set.Classes(), pixels, labels)
	if err != nil {
		t.Fatal(err)
	}
	return sorted
}

// Two workers train on images that lie by class, the dark ones before the bright ones. Where each
// has the images of one class alone, batch norm takes out what tells the classes apart.
func TestWorkersLearnFromImagesThatLieByClass(t *testing.T) {
	accuracy := func(order sampler.Order) float64 {
		_, epochs, errs := fitJob(t, "dist_sync", 2, rigConfig{examples: 160, order: order, sorted: true}, func(_ int, c *worker.FitConfig) { c.Epochs = 6 })
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		return epochs[0][5].Test.Accuracy
	}
	mixed, apart := accuracy(sampler.Permutation), accuracy(sampler.Contiguous)
	if mixed < 0.9 || mixed < apart+0.05 {
		t.Errorf("accuracy after 6 epochs: %.3f, and %.3f where each worker has one class; want at least 0.9 and 0.05 more", mixed, apart)
	}
}
