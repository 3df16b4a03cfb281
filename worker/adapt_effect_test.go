package worker_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// A spoiledStore spoils this worker's gradients in some steps.
type spoiledStore struct {
	kvstore.Store
	step int
	how  func(step int) spoil
}

type spoil int

const (
	unspoiled spoil = iota
	notFinite       // NaN in all parameters: the guard refuses them
	oneKey          // NaN in one of the two parameters
	overflow        // weight 0 and no examples, as of a device whose float16 gradients are not finite
)

func (s *spoiledStore) Step(st kvstore.PushOptions) kvstore.Pusher {
	how := s.how(s.step)
	s.step++
	if how == overflow {
		st.Weight, st.Examples = 0, 0
	}
	return spoiledPusher{s.Store.Step(st), how}
}

type spoiledPusher struct {
	kvstore.Pusher
	how spoil
}

func (p spoiledPusher) PushPull(ctx context.Context, key string, grads, outs [][]float32) error {
	if !strings.HasPrefix(key, "paragon/") {
		for _, g := range grads {
			switch {
			case p.how == notFinite, p.how == oneKey && key == "w1":
				g[0] = float32(math.NaN())
			case p.how == overflow:
				clear(g)
			}
		}
	}
	return p.Pusher.PushPull(ctx, key, grads, outs)
}

// A step to which no gradient contributed is no progress, on any worker, and one to which some did
// is as much as their examples are worth.
func TestAStepWithoutEffectIsNoProgress(t *testing.T) {
	on := func(how spoil, steps ...int) func(worker, step int) spoil {
		return func(_, step int) spoil {
			if slices.Contains(steps, step) {
				return how
			}
			return unspoiled
		}
	}
	for name, c := range map[string]struct {
		optimizer string
		how       func(worker, step int) spoil
		steps     [2]int     // of the epochs
		progress  [2]float64 // at their ends
	}{
		"all count":                         {"sgd", on(unspoiled), [2]int{8, 8}, [2]float64{8, 16}},
		"refused":                           {"sgd", on(notFinite, 2, 3), [2]int{10, 8}, [2]float64{8, 16}},
		"refused, some steps unmeasured":    {"adam", on(notFinite, 1, 2), [2]int{10, 8}, [2]float64{8, 16}},
		"overflow":                          {"sgd", on(overflow, 2, 3), [2]int{10, 8}, [2]float64{8, 16}},
		"the last step, and those after it": {"sgd", on(notFinite, 7, 8, 9), [2]int{11, 8}, [2]float64{8, 16}},
		"the last step of all":              {"sgd", on(overflow, 15), [2]int{8, 9}, [2]float64{8, 16}},
		"one key":                           {"sgd", on(oneKey, 2, 7), [2]int{8, 8}, [2]float64{8, 16}},
		"one worker": {"sgd", func(worker, step int) spoil { // 3 of 6 examples
			if worker == 1 && (step == 4 || step == 5) {
				return notFinite
			}
			return unspoiled
		}, [2]int{9, 8}, [2]float64{8, 16}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := runElastic(t, elasticPlan{workers: 2, servers: 2, examples: 48, batch: 3, epochs: 2, parameters: 2, guard: &kvstore.Guard{},
					optimizer: optim.Config{Name: c.optimizer, LearningRate: 0.01},
					change: func(_ *elasticWorker, c *worker.FitConfig) {
						c.Adapt = &worker.AdaptConfig{}
					},
					wrap: func(w *elasticWorker, store kvstore.Store) kvstore.Store {
						return &spoiledStore{Store: store, how: func(step int) spoil { return c.how(w.number, step) }}
					}})
				j.wantEnds(nil)
				j.wantAdapted()
				for _, w := range j.workers {
					for i, e := range w.epochs {
						if p := e.Adapt.Progress; len(e.Losses) != c.steps[i] || name != "one worker" && p != c.progress[i] || p < c.progress[i] || p > c.progress[i]+1 {
							t.Errorf("worker %d epoch %d: %d steps to progress %v, want %d to %v", w.number, i, len(e.Losses), p, c.steps[i], c.progress[i])
						}
					}
				}
			})
		})
	}
}

// A run that is stopped after a step that would have been its epoch's last one, but had no effect,
// goes on as one that is not stopped.
func TestARunStoppedAfterAStepWithoutEffectResumesTheVerySame(t *testing.T) {
	rig := func(done int, change func(c *worker.FitConfig)) *fitRig {
		store := &spoiledStore{Store: newStore(t, "local", kvstore.WithGuard(kvstore.Guard{})), step: done, how: func(step int) spoil {
			if step == 7 {
				return notFinite
			}
			return unspoiled
		}}
		r := newRig(t, rigConfig{store: store, optimizer: optim.Config{Name: "sgd", LearningRate: 0.05}})
		r.cfg.Adapt = &worker.AdaptConfig{}
		change(&r.cfg)
		return r
	}
	whole := rig(0, func(*worker.FitConfig) {})
	epochs, err := worker.Fit(t.Context(), whole.cfg)
	if err != nil || len(epochs[0].Losses) != 9 {
		t.Fatalf("got error %v and %d steps in the first epoch, want 9", err, len(epochs[0].Losses))
	}
	dir, stop := t.TempDir(), make(chan struct{})
	stopped := rig(0, func(c *worker.FitConfig) {
		c.Stop, c.Checkpoint, c.Observers = stop, worker.CheckpointConfig{Dir: dir}, []worker.Observer{&stopAfter{step: 7, stop: stop}}
	})
	if _, err := worker.Fit(t.Context(), stopped.cfg); !errors.Is(err, worker.ErrStopped) {
		t.Fatalf("got error %v, want ErrStopped", err)
	}
	resumed := rig(8, func(c *worker.FitConfig) { c.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true} })
	rest, err := worker.Fit(t.Context(), resumed.cfg)
	if err != nil || rest[0].First != 8 {
		t.Fatalf("got error %v, and a run from step %d on, want 8", err, rest[0].First)
	}
	if i := firstDifference(resumed.values(), whole.values()); i >= 0 {
		t.Errorf("value %d differs from the run that was not stopped", i)
	}
	if got, want := rest[len(rest)-1].Adapt.Progress, epochs[2].Adapt.Progress; got != want {
		t.Errorf("progress %v, want %v", got, want)
	}
}

// Where no step has an effect any more an epoch would never end: the job fails, and says why.
func TestAPassWithoutEffectEndsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := runElastic(t, elasticPlan{workers: 2, servers: 1, examples: 48, batch: 3, epochs: 2, guard: &kvstore.Guard{},
			change: func(_ *elasticWorker, c *worker.FitConfig) { c.Adapt = &worker.AdaptConfig{} },
			wrap: func(_ *elasticWorker, store kvstore.Store) kvstore.Store {
				return &spoiledStore{Store: store, how: func(step int) spoil {
					if step >= 11 {
						return notFinite
					}
					return unspoiled
				}}
			}})
		for _, w := range j.workers {
			if w.err == nil || !strings.Contains(w.err.Error(), "had no effect") {
				t.Errorf("worker %d: got error %v, want one that says that steps had no effect", w.number, w.err)
			}
			if w.step > 11+16 {
				t.Errorf("worker %d made %d steps, want at most 27: 11, and at most those of two passes", w.number, w.step)
			}
		}
	})
}
