package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/sampler"
	"github.com/paragon-train/paragon/worker"
)

// A hookedStore is an elastic store that calls a hook before each exchange and save.
type hookedStore struct {
	kvstore.Store
	hook func(ctx context.Context, what string)
	late bool        // it hears of changes only when it asks for them
	news atomic.Bool // it has
}

func (s *hookedStore) PushPull(ctx context.Context, key string, grads, outs [][]float32) error {
	return s.Weighted(1, false).PushPull(ctx, key, grads, outs)
}

func (s *hookedStore) Weighted(weight float32, counted bool) kvstore.Pusher {
	return hookedStorePusher{s.Store.Weighted(weight, counted), s}
}

type hookedStorePusher struct {
	kvstore.Pusher
	of *hookedStore
}

func (p hookedStorePusher) PushPull(ctx context.Context, key string, grads, outs [][]float32) error {
	p.of.hook(ctx, key)
	return p.Pusher.PushPull(ctx, key, grads, outs)
}

func (s *hookedStore) Snapshot(ctx context.Context) (*kvstore.Snapshot, error) {
	s.hook(ctx, "save")
	return s.Store.Snapshot(ctx)
}

func (s *hookedStore) Pending() uint64 {
	if s.late && !s.news.Load() {
		return 0
	}
	return s.Store.Pending()
}

func (s *hookedStore) AwaitMembers(ctx context.Context, most int) error {
	s.news.Store(true)
	return s.Store.AwaitMembers(ctx, most)
}

func hooked(store kvstore.Store, hook func(ctx context.Context, what string)) *hookedStore {
	return &hookedStore{Store: store, hook: hook}
}

// hang is where a worker that is killed in the middle of a call stays.
func hang(ctx context.Context) {
	<-ctx.Done()
}

// counted is a job whose parameters count how often each example was used.
var counted = optim.Config{Name: "test", LearningRate: 1, Reduction: optim.Sum}

// A worker is lost in the last step of an epoch, when it has said that there is nothing to do after
// it and before its gradient has come; the others have not heard of it yet when they count. Its
// examples are used in the same epoch.
func TestALossInTheLastStepOfAnEpochIsNoticed(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			j := runElastic(t, elasticPlan{workers: 3, servers: 1, examples: 30, batch: 5, epochs: 2, optimizer: counted,
				wrap: func(w *elasticWorker, store kvstore.Store) kvstore.Store {
					s := hooked(store, func(ctx context.Context, key string) {
						if w.number == 1 && w.step == 2 && key == "w0" {
							time.Sleep(10 * time.Millisecond) // its flag is there
							w.j.kill(w, silent)
							hang(ctx)
						}
					})
					s.late = true
					return s
				}})
			j.wantEnds(nil)
			j.wantOnce()
			j.wantCounts()
		})
	}
}

// Whoever is lost while a checkpoint is written, the others go on: there is no checkpoint that
// counts as whole and is not, and the next one is written, by the new rank 0 if need be. What there
// is in the end can be resumed by any number of workers.
func TestALossWhileACheckpointIsWritten(t *testing.T) {
	for _, lost := range []int{0, 1} {
		for _, when := range []string{"first agreement", "save"} {
			if when == "save" && lost != 0 {
				continue // rank 0 saves
			}
			t.Run(fmt.Sprintf("rank %d/%s", lost, when), func(t *testing.T) {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					saves := 0
					j := runElastic(t, elasticPlan{workers: 3, servers: 2, examples: 90, batch: 3, epochs: 2, optimizer: counted,
						change: func(_ *elasticWorker, c *worker.FitConfig) {
							c.Checkpoint = worker.CheckpointConfig{Dir: dir, EverySteps: 4, Keep: 10}
						},
						wrap: func(w *elasticWorker, store kvstore.Store) kvstore.Store {
							return hooked(store, func(ctx context.Context, what string) {
								if w.number != lost {
									return
								}
								die := what == "save" && when == "save"
								if strings.HasPrefix(what, "paragon/agreed/") && when == "first agreement" && w.step == 4 {
									saves++
									die = saves == 2 // the first is that of the step
								}
								if die {
									w.j.kill(w, false)
									hang(ctx)
								}
							})
						}})
					j.wantEnds(nil)
					j.wantOnce()
					j.wantCounts()
				})
				found, err := filepath.Glob(filepath.Join(dir, "step-*", "complete.json"))
				if err != nil || len(found) < 2 {
					t.Fatalf("checkpoints: got %v, %v, want several", found, err)
				}
				half := filepath.Join(dir, "step-00000004", "complete.json")
				if lost == 0 && slices.Contains(found, half) {
					t.Errorf("%s: rank 0 was lost before it was done, want no manifest", half)
				}
				for _, path := range found {
					if _, err := os.Stat(filepath.Join(filepath.Dir(path), "store.safetensors")); err != nil {
						t.Errorf("a whole checkpoint: %v", err)
					}
				}
			})
		}
	}
}

// A job that was stopped in the middle of an epoch goes on with another number of workers, and
// again with another: each example of the epoch is used once, also where the workers of each job
// come and go. The order is that of the first job, whatever the later ones and those who join were
// configured with; a checkpoint of a version that had no other order is contiguous.
func TestAnotherNumberOfWorkersGoesOn(t *testing.T) {
	orders := []struct {
		name         string
		first, later sampler.Order
	}{
		{"permutation", sampler.Permutation, sampler.Permutation},
		{"contiguous", sampler.Contiguous, sampler.Permutation},
		{"then contiguous", sampler.Permutation, sampler.Contiguous},
		{"blocks", someBlocks(157, 3), someBlocks(157, 4)},
	}
	cuts := []int{3, 7, 12}
	if testing.Short() {
		cuts = cuts[:1]
	}
	for i, cut := range cuts {
		for k, sizes := range [][]int{{3, 2, 4}, {2, 5, 2}, {2, 3, 4}, {3, 3, 3}} {
			for l, how := range []string{"still", "joining", "losing"} {
				// Each cut, each row of sizes and each way at least once: pairs
				// take long.
				if !slow() && (l != k%3 || (k+l)%len(cuts) != i) {
					continue
				}
				order := orders[(4+k+l-k%3)%len(orders)] // contiguous with joining, for one
				t.Run(fmt.Sprintf("%v cut %d %s %s", sizes, cut, how, order.name), func(t *testing.T) {
					dir := t.TempDir()
					var before []*elasticJob
					for i, workers := range sizes {
						synctest.Test(t, func(t *testing.T) {
							stop := make(chan struct{})
							plan := elasticPlan{workers: workers, servers: 2, examples: 157, batch: 3, epochs: 2, optimizer: counted, order: order.later, joinOrder: order.later,
								at: func(j *elasticJob, w *elasticWorker, n int) {
									switch {
									case how == "joining" && w.number == 0 && n == 1:
										j.start(workers, true)
									case how == "losing" && w.number == 1 && n == 2:
										j.kill(w, false)
									}
									if i < 2 && w.number == 0 && n == cut && j.first("stop") {
										close(stop)
									}
								},
								change: func(_ *elasticWorker, c *worker.FitConfig) {
									c.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: i > 0}
									c.Stop = stop
								}}
							if i == 0 {
								plan.order, plan.joinOrder = order.first, order.first
							} else if order.name == "contiguous" {
								forgetOrder(t, dir)
							}
							j := runElastic(t, plan)
							for _, w := range j.workers {
								if w.err != nil && !w.killed && !errors.Is(w.err, worker.ErrStopped) {
									t.Errorf("job %d worker %d: got error %v, want none or ErrStopped", i, w.number, w.err)
								}
							}
							before = append(before, j)
						})
						if t.Failed() {
							return
						}
					}
					last := before[len(before)-1]
					last.t = t
					last.wantCounts()
					all := map[string]worker.Used{}
					for i, j := range before {
						for key, u := range j.used {
							all[fmt.Sprint(i, "/", key)] = u
						}
					}
					last.used = all
					last.wantOnce()
				})
			}
		}
	}
}

// forgetOrder makes the newest checkpoint one of a version that did not name the order.
func forgetOrder(t *testing.T, dir string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "step-*", "complete.json"))
	if err != nil || len(found) == 0 {
		t.Fatalf("checkpoints: got %v, %v, want some", found, err)
	}
	path := slices.Max(found)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil || fields["order"] != "contiguous" || fields["version"].(float64) > 2 {
		t.Fatalf("%s: %v, order %v, version %v, want contiguous and at most version 2, which older programs read", path, err, fields["order"], fields["version"])
	}
	for _, name := range []string{"order", "files", "manifest_crc32c"} { // an old one has no checksums
		delete(fields, name)
	}
	if text, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	write(t, path, text)
}

// A feed that cannot be divided anew takes changes at the start of an epoch, with the data-iterator
// hook; without the hook the error says what is missing.
func TestAFeedThatCannotBeDividedWaitsForTheEpoch(t *testing.T) {
	for _, hook := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			j := runElastic(t, elasticPlan{workers: 2, servers: 1, examples: 60, batch: 3, epochs: 4, optimizer: counted, hide: true,
				at: func(j *elasticJob, w *elasticWorker, n int) {
					switch {
					case w.number == 0 && n == 3:
						j.start(2, true)
					case w.number == 0 && n == 21 && hook:
						if _, err := j.job.Control(context.Background(), `{"op":"remove","host":"worker1"}`); err != nil {
							j.t.Error(err)
						}
					}
				},
				change: func(w *elasticWorker, c *worker.FitConfig) {
					if c.OnMembership = nil; hook {
						c.OnMembership = func(rank, workers int) {
							w.hooks = append(w.hooks, [2]int{rank, workers})
							if err := w.Divided(rank, workers, nil); err != nil {
								w.j.t.Error(err)
							}
						}
					}
				}})
			if !hook {
				if err := j.workers[0].err; err == nil || !strings.Contains(err.Error(), "changed from 2 to 3, and feed worker_test.plainFeed cannot") {
					t.Errorf("without a hook: got error %v, want one that says 2 and 3", err)
				}
				return
			}
			j.wantEnds(map[int]error{1: worker.ErrRemoved})
			j.wantCounts()
			if got, want := fmt.Sprint(j.workers[0].hooks), "[[0 3] [0 2]]"; got != want {
				t.Errorf("hooks of worker 0: got %s, want %s", got, want)
			}
		})
	}
}

// A worker that joins while all are asked to stop stops with them.
func TestAJoinAndAStopTogether(t *testing.T) {
	for _, stopAt := range []int{1, 2, 3, 4} { // asked while step 3 is on, it is said with step 4
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			stop := make(chan struct{})
			j := runElastic(t, elasticPlan{workers: 2, servers: 1, examples: 60, batch: 3, epochs: 2,
				at: func(j *elasticJob, w *elasticWorker, step int) {
					if w.number == 0 && step == 3 {
						j.start(2, true)
					}
					if w.number == 0 && step == stopAt {
						close(stop)
					}
				},
				change: func(_ *elasticWorker, c *worker.FitConfig) {
					c.Stop, c.Checkpoint.Dir = stop, dir
				}})
			for _, w := range j.workers {
				if !errors.Is(w.err, worker.ErrStopped) {
					t.Errorf("stop asked in step %d: worker %d: got %v, want ErrStopped", stopAt, w.number, w.err)
				}
			}
		})
	}
}

// A worker that is lost in the middle of what comes after the last step of an epoch, or after a
// step within it, the averaging of running statistics, the evaluation or the checkpoint, leaves the
// others going: all its steps count.
func TestALossBetweenSteps(t *testing.T) {
	for i, lost := range []int{0, 2, 0, 2} {
		for k, when := range []string{"bn.running_mean", "evaluation"} {
			if !slow() && lost/2 == (i/2+k)%2 { // rank 0 and rank 2 each in one of two
				continue
			}
			dir, evaluateSteps := t.TempDir(), i/2*2
			synctest.Test(t, func(t *testing.T) {
				die := func(ctx context.Context, w *elasticWorker, what string) {
					if w.number == lost && what == when && w.j.first(what) {
						w.j.kill(w, false)
						hang(ctx)
					}
				}
				j := runElastic(t, elasticPlan{workers: 3, servers: 1, examples: 45, batch: 5, epochs: 3, optimizer: counted, state: true,
					change: func(w *elasticWorker, c *worker.FitConfig) {
						c.Checkpoint.Dir = dir
						c.Evaluator, c.EvaluateSteps = evaluatorFunc(func(ctx context.Context) { die(ctx, w, "evaluation") }), evaluateSteps
					},
					wrap: func(w *elasticWorker, store kvstore.Store) kvstore.Store {
						return hooked(store, func(ctx context.Context, key string) { die(ctx, w, key) })
					}})
				if len(j.once) != 1 {
					t.Errorf("rank %d was not lost in %s", lost, when)
				}
				j.wantEnds(nil)
				j.wantOnce()
				j.wantCounts()
				a, b := j.workers[1].program.State(), j.workers[2-lost].program.State()
				for i := range a {
					if !slices.Equal(a[i].Value, b[i].Value) {
						t.Errorf("%s: survivors end with %v and %v, want the same", a[i].Name, a[i].Value, b[i].Value)
					}
				}
			})
		}
	}
}

type evaluatorFunc func(ctx context.Context)

func (f evaluatorFunc) Evaluate(ctx context.Context) (worker.Scores, error) {
	f(ctx)
	return worker.Scores{}, nil
}

// With the policy "wait" the others stand at the boundary until another worker has taken the place.
func TestALostWorkersPlaceIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := runElastic(t, elasticPlan{workers: 3, servers: 1, examples: 90, batch: 5, epochs: 2, optimizer: counted,
			elastic: cluster.Elastic{Enabled: true, OnWorkerLoss: cluster.LossWait, RejoinTimeout: time.Minute},
			at: func(j *elasticJob, w *elasticWorker, n int) {
				if w.number == 0 && n == 2 && j.first("lost") {
					j.kill(j.workers[1], false)
					go func() {
						time.Sleep(20 * time.Second)
						j.start(3, true)
					}()
				}
			}})
		j.wantEnds(nil)
		j.wantOnce()
		j.wantCounts()
		for _, w := range j.workers {
			if !w.killed && (len(w.hooks) != 1 || w.hooks[0][1] != 3) {
				t.Errorf("worker %d: hooks %v, want one with 3 workers", w.number, w.hooks)
			}
		}
	})
}

// A worker that is done before the others leaves cleanly: they count without it, also when another
// one joins afterwards.
func TestAWorkerThatIsDoneLeavesTheOthersGoing(t *testing.T) {
	for _, joins := range []bool{false, true} {
		for _, done := range []int{0, 1} {
			synctest.Test(t, func(t *testing.T) {
				j := runElastic(t, elasticPlan{workers: 3, servers: 1, examples: 45, batch: 5, epochs: 3,
					at: func(j *elasticJob, w *elasticWorker, n int) {
						if joins && w.number == 2 && n == 5 {
							j.start(3, true)
						}
					},
					change: func(w *elasticWorker, c *worker.FitConfig) {
						if w.number == done {
							c.Epochs = 1
						}
					}})
				j.wantEnds(nil)
			})
		}
	}
}

// A worker that comes too late ends cleanly.
func TestAWorkerThatComesTooLateEndsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := runElastic(t, elasticPlan{workers: 2, servers: 1, examples: 30, batch: 3, epochs: 1, hide: true,
			at: func(j *elasticJob, w *elasticWorker, n int) {
				if w.number == 0 && n == 2 {
					j.start(2, true)
				}
			}})
		j.wantEnds(nil)
		if late := j.workers[2]; late.epochs != nil {
			t.Errorf("a worker that never counted: got %d epochs, want none", len(late.epochs))
		}
	})
}
