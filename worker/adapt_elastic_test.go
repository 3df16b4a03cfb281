package worker_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// A reportingStore keeps what is reported of the adaptation, and lets the job have up to five
// workers.
type reportingStore struct {
	kvstore.Store
	reports *[]string
}

func (s reportingStore) WorkerRange() (least, most int) { return 1, 5 }

func (s reportingStore) ReportAdaptation(text string) error {
	*s.reports = append(*s.reports, text)
	return s.Store.ReportAdaptation(text)
}

// Two workers choose larger batches while they train, a third joins and one is lost: all have the
// same progress, to the bit, at the end of each epoch, and each example of a pass is used once.
func TestAWorkerJoinsAnAdaptingJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := make([][]string, 3)
		j := runElastic(t, elasticPlan{workers: 2, servers: 2, examples: 240, batch: 3, epochs: 6, parameters: 2, optimizer: optim.Config{Name: "sgd", LearningRate: 0.01},
			change: func(_ *elasticWorker, c *worker.FitConfig) {
				c.Adapt = &worker.AdaptConfig{MaxBatch: 60, Accumulation: true}
			},
			wrap: func(w *elasticWorker, store kvstore.Store) kvstore.Store {
				return reportingStore{store, &reports[w.number]}
			},
			at: func(j *elasticJob, w *elasticWorker, n int) {
				switch {
				case w.number == 0 && n == 60:
					j.start(2, true)
				case w.number == 1 && n == 130:
					j.kill(w, false)
				}
			}})
		j.wantEnds(nil)
		j.wantAdapted()
		first, last := j.workers[0].epochs[0].Batches[0], j.workers[0].epochs[5].Adapt
		if first != 6 || last.Batch <= 6 || last.Batch > 60 || last.InitialBatch != 6 {
			t.Errorf("the batch went from %d to %+v, want from 6 to more, at most 60", first, last)
		}
		if len(reports[1])+len(reports[2]) > 0 || len(reports[0]) < 2 {
			t.Fatalf("got %d, %d and %d reports, want rank 0's alone", len(reports[0]), len(reports[1]), len(reports[2]))
		}
		wishes := map[int]bool{}
		for i, text := range reports[0] {
			a, err := control.DecodeAdaptation(text)
			if err != nil {
				t.Fatal(err)
			}
			wishes[a.WishedWorkers] = true
			if a.GlobalBatch != a.Workers*a.LocalBatch*(a.Accumulation+1) || a.InitialBatch != 6 || a.Limits == nil || a.Limits.MaxBatch != 60 {
				t.Errorf("report %d: got %s", i, text)
			}
			if i == len(reports[0])-1 && (a.Noise == nil || a.Model == nil || !(a.Goodput > 0) || a.Goodput > a.Throughput || !(a.Progress > 0)) {
				t.Errorf("the last report is %s, want one with noise, model and goodput", text)
			}
		}
		if len(wishes) < 2 {
			t.Errorf("the wishes are for %v workers, want some after none", wishes)
		}
		if n := len(j.workers[2].epochs); n == 0 || n == 6 {
			t.Errorf("the worker that joined has %d epochs, want some but not all 6", n)
		}
	})
}

// wantAdapted checks what an adapting job promises.
func (j *elasticJob) wantAdapted() {
	j.t.Helper()
	wantPasses(j.t, slices.Collect(maps.Values(j.used)), j.plan.examples)
	progress := map[int]*worker.AdaptInfo{} // by epoch
	for _, w := range j.workers {
		if w.err != nil || w.killed {
			continue
		}
		if n := len(w.epochs); n > 0 && w.epochs[n-1].Epoch != j.plan.epochs-1 || !w.joining && n != j.plan.epochs {
			j.t.Errorf("worker %d has %d epochs, want %d, or the last of them if it joined", w.number, n, j.plan.epochs)
		}
		for i, e := range w.epochs {
			if i > 0 && e.Epoch != w.epochs[i-1].Epoch+1 {
				j.t.Errorf("worker %d: epoch %d follows %d", w.number, e.Epoch, w.epochs[i-1].Epoch)
			}
			if p := progress[e.Epoch]; p != nil && (p.Progress != e.Adapt.Progress || p.Batch != e.Adapt.Batch || p.Gain != e.Adapt.Gain) {
				j.t.Errorf("epoch %d: worker %d has %+v, another one %+v", e.Epoch, w.number, e.Adapt, p)
			}
			progress[e.Epoch] = e.Adapt
		}
	}
}

// Whatever happens to the workers and to the batch, each example of a pass is used once, and all
// workers agree on the progress.
func TestAdaptingJobsUseExamplesOnceWhateverHappens(t *testing.T) {
	eachSeed(t, 3, 10, randomAdaptingJob)
}

func randomAdaptingJob(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	plan := elasticPlan{
		workers: 2 + r.IntN(3), servers: 1 + r.IntN(2), examples: 40 + r.IntN(160), batch: 1 + r.IntN(5), epochs: 1 + r.IntN(4),
		parameters: 1 + r.IntN(3), elastic: cluster.Elastic{Enabled: true, MinWorkers: 1}, seed: seed,
		optimizer: optim.Config{Name: []string{"sgd", "adam"}[r.IntN(2)], LearningRate: 0.01},
	}
	plan.ahead = seed%3 == 0
	adapting := worker.AdaptConfig{MaxBatch: plan.workers * plan.batch * (1 + r.IntN(8)), Accumulation: r.IntN(3) > 0, Groups: []string{"w0"}}
	if seed%2 == 0 {
		for step := r.IntN(5); step < 60; step += 1 + r.IntN(12) {
			adapting.Decisions = append(adapting.Decisions, worker.Decision{Step: uint64(step), LocalBatch: 1 + r.IntN(9), Accumulation: r.IntN(3)})
		}
	}
	dir, every := "", 0
	if r.IntN(3) == 0 {
		dir, every = t.TempDir(), 1+r.IntN(9)
	}
	plan.change = func(w *elasticWorker, c *worker.FitConfig) {
		own := adapting
		c.Adapt = &own
		if dir != "" {
			c.Checkpoint = worker.CheckpointConfig{Dir: dir, EverySteps: every}
			c.Evaluator, c.EvaluateSteps = slowEvaluator{w}, 12-every
		}
	}
	plan.happen(r, r.IntN(6))
	j := runElastic(t, plan)
	j.wantNoFailure()
	j.wantAdapted()
}

// An adapting job that was stopped in the middle of a pass goes on with another number of workers,
// and again with another: each example of a pass is used once, and there is each epoch once.
func TestAnotherNumberOfWorkersAdapts(t *testing.T) {
	for i, how := range []string{"still", "joining", "losing"} {
		for _, decided := range []bool{false, true} {
			if !slow() && decided != (i != 1) {
				continue
			}
			t.Run(fmt.Sprintf("%s decided %t", how, decided), func(t *testing.T) {
				dir := t.TempDir()
				var used []worker.Used
				epochs := map[int]int{}
				for i, workers := range []int{3, 2, 4} {
					synctest.Test(t, func(t *testing.T) {
						stop := make(chan struct{})
						j := runElastic(t, elasticPlan{workers: workers, servers: 2, examples: 157, batch: 3, epochs: 4, optimizer: optim.Config{Name: "sgd", LearningRate: 0.01},
							at: func(j *elasticJob, w *elasticWorker, n int) {
								switch {
								case how == "joining" && w.number == 0 && n == 1:
									j.start(workers, true)
								case how == "losing" && w.number == 1 && n == 2:
									j.kill(w, false)
								}
								if i < 2 && w.number == 0 && n == 21 && j.first("stop") {
									close(stop)
								}
							},
							change: func(_ *elasticWorker, c *worker.FitConfig) {
								c.Adapt = &worker.AdaptConfig{MaxBatch: 45, Accumulation: true}
								if decided {
									c.Adapt.Decisions = []worker.Decision{{Step: 2, LocalBatch: 2, Accumulation: 1}, {Step: 9, LocalBatch: 5}, {Step: 14, LocalBatch: 3, Accumulation: 2}}
								}
								c.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: i > 0}
								c.Stop = stop
							}})
						for _, w := range j.workers {
							if w.err != nil && !w.killed && !errors.Is(w.err, worker.ErrStopped) {
								t.Errorf("job %d worker %d: got error %v, want none or ErrStopped", i, w.number, w.err)
							}
						}
						used = slices.AppendSeq(used, maps.Values(j.used))
						for _, e := range j.workers[0].epochs {
							epochs[e.Epoch]++
						}
					})
					if t.Failed() {
						return
					}
				}
				wantPasses(t, used, 157)
				for e, n := range epochs {
					if n != 1 || e > 3 {
						t.Errorf("epoch %d ended %d times, want epochs 0 to 3 once each", e, n)
					}
				}
				if epochs[3] != 1 {
					t.Errorf("got the epochs %v, want the last one, 3", epochs)
				}
			})
		}
	}
}

// Programs for a larger batch cannot be made on one worker alone. When the workers change, and so
// the batch, all still take the same one.
func TestOneWorkerWithoutMemoryForABatchDecidesAsTheOthersDo(t *testing.T) {
	for _, how := range []string{"lost", "joined"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := runElastic(t, elasticPlan{workers: 3, servers: 1, examples: 200, batch: 6, epochs: 3, optimizer: optim.Config{Name: "sgd", LearningRate: 0.01},
					change: func(w *elasticWorker, c *worker.FitConfig) {
						c.Adapt = &worker.AdaptConfig{MaxBatch: 60, Accumulation: true, Decisions: []worker.Decision{{Step: 2, LocalBatch: 7}}}
						c.Adapt.Program = func(int, int) (*nn.Program, error) {
							if w.number == 1 {
								return nil, errors.New("no memory")
							}
							return nn.Compile(countingLoss(200, 1, false), nn.Config{OwnMask: true, Share: w.program})
						}
					},
					at: func(j *elasticJob, w *elasticWorker, n int) {
						if w.number == 2 && n == 5 {
							if how == "joined" {
								j.start(3, true)
							}
							j.kill(w, false)
						} else if how == "joined" && w.number == 3 && n == 2 {
							j.kill(w, false)
						}
					}})
				j.wantEnds(nil)
				j.wantAdapted()
			})
		})
	}
}
