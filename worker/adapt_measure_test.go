package worker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/paragon-train/paragon/adapt"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// A steppedStore keeps which steps asked for norms.
type steppedStore struct {
	kvstore.Store
	mu    *sync.Mutex
	asked map[int][]bool // by rank, by step
}

func (s steppedStore) Step(st kvstore.PushOptions) kvstore.Pusher {
	s.mu.Lock()
	s.asked[s.Rank()] = append(s.asked[s.Rank()], st.Measure)
	s.mu.Unlock()
	return s.Store.Step(st)
}

// With a rule of Adam's family one step in four is measured and counts as four in the averages;
// with the others each is. With one worker the servers choose, so each step asks.
func TestOneStepInFourIsMeasuredWithAdamsFamily(t *testing.T) {
	for _, c := range []struct {
		optimizer      string
		workers, every int
		reach          int // of the averages, in steps: of 16 steps Adam's first five rounds are not measured, and with one worker one pair is
	}{
		{"sgd", 2, 1, 16}, {"nag", 2, 1, 16}, {"adagrad", 2, 1, 16}, {"adam", 2, 4, 8}, {"adamw", 2, 4, 8}, {"rmsprop", 3, 4, 8}, {"lamb", 2, 4, 8},
		{"sgd", 1, 1, 2}, {"adam", 1, 1, 0},
	} {
		t.Run(fmt.Sprintf("%s of %d workers", c.optimizer, c.workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, mu, asked := t.TempDir(), &sync.Mutex{}, map[int][]bool{}
				j := runElastic(t, elasticPlan{workers: c.workers, servers: 1, examples: 16 * 3 * c.workers, batch: 3, epochs: 1, optimizer: optim.Config{Name: c.optimizer, LearningRate: 0.01},
					change: func(_ *elasticWorker, f *worker.FitConfig) {
						f.Adapt, f.Checkpoint = &worker.AdaptConfig{}, worker.CheckpointConfig{Dir: dir}
					},
					wrap: func(_ *elasticWorker, store kvstore.Store) kvstore.Store { return steppedStore{store, mu, asked} }})
				j.wantEnds(nil)
				for rank := range c.workers {
					want := make([]bool, 16)
					for i := 0; i < len(want); i += c.every {
						want[i] = true
					}
					if !slices.Equal(asked[rank], want) {
						t.Errorf("rank %d: measured %v, want one in %d", rank, asked[rank], c.every)
					}
				}
				text, err := os.ReadFile(filepath.Join(dir, "step-00000016", "complete.json"))
				var m struct {
					Adapt struct{ Groups []adapt.State }
				}
				if err = errors.Join(err, json.Unmarshal(text, &m)); err != nil || len(m.Adapt.Groups) != 1 {
					t.Fatalf("got %s (%v), want one group", text, err)
				}
				if got, want := m.Adapt.Groups[0].Weight, 1-math.Pow(0.999, float64(c.reach)); math.Abs(got-want) > 1e-12 {
					t.Errorf("the averages have the weight %v, want %v, that of %d steps", got, want, c.reach)
				}
			})
		})
	}
}
