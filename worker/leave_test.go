package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/worker"
)

// wantCheckpoint checks that a folder has a checkpoint that is complete, with a part of so many
// workers.
func wantCheckpoint(t *testing.T, dir string, workers int) {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(dir, "step-*", "complete.json"))
	if len(found) == 0 {
		t.Errorf("%s has no complete checkpoint", dir)
		return
	}
	parts, _ := filepath.Glob(filepath.Join(filepath.Dir(found[len(found)-1]), "worker-*.safetensors"))
	if len(parts) != workers {
		t.Errorf("the checkpoint has parts of %d workers, want %d", len(parts), workers)
	}
}

// leftAfter checks how many steps a worker still took part in, from the one in which it was told to
// end.
func (j *elasticJob) leftAfter(number, told, most int) {
	j.t.Helper()
	if n := j.workers[number].step - told; n < 1 || n > most {
		j.t.Errorf("worker %d was told to end in its step %d and took part in %d more, want 1 to %d", number, told, n-1, most-1)
	}
}

// A worker that is told to end leaves within two steps, and the others train on: nothing it has
// done is lost, and nothing is done twice. It may be rank 0, and several may be told at once, or
// one after the other.
func TestAWorkerThatIsToldToEndLeaves(t *testing.T) {
	for _, tc := range []struct {
		name string
		told map[int]int // in which step of its own, by worker
	}{
		{"one", map[int]int{2: 7}},
		{"rank 0", map[int]int{0: 7}},
		{"in the first step", map[int]int{1: 0}},
		{"two at once", map[int]int{0: 7, 3: 7}},
		{"all but one, one after the other", map[int]int{1: 5, 0: 6, 3: 8}},
		{"in the last step of an epoch", map[int]int{1: 12}},
	} {
		if !slow() && (tc.name == "one" || tc.name == "two at once") {
			continue // the others have one, and several
		}
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := runElastic(t, elasticPlan{workers: 4, servers: 2, examples: 157, batch: 3, epochs: 3, parameters: 3,
					at: func(j *elasticJob, w *elasticWorker, n int) {
						if step, ok := tc.told[w.number]; ok && n == step {
							w.leave()
						}
					}})
				ends := map[int]error{}
				for number, step := range tc.told {
					ends[number] = worker.ErrRemoved
					j.leftAfter(number, step, 3)
				}
				j.wantEnds(ends)
				j.wantOnce()
				j.wantValues()
			})
		})
	}
}

// Where the job does not go on without the worker that is told to end, all stop after the same
// step, with a checkpoint of all.
func TestAllStopWhereAWorkerCanNotLeave(t *testing.T) {
	for _, tc := range []struct {
		name string
		plan elasticPlan
	}{
		{"too few would be left", elasticPlan{elastic: cluster.Elastic{Enabled: true, MinWorkers: 3}}},
		{"a job of fixed size", elasticPlan{elastic: cluster.Elastic{OnWorkerLoss: cluster.LossFail}}},
		{"a feed that can never be divided", elasticPlan{hide: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			var log bytes.Buffer
			synctest.Test(t, func(t *testing.T) {
				p := tc.plan
				p.workers, p.servers, p.examples, p.batch, p.epochs, p.log = 3, 1, 120, 3, 2, &log
				p.at = func(j *elasticJob, w *elasticWorker, n int) {
					if w.number == 1 && n == 6 {
						w.leave()
					}
				}
				p.change = func(_ *elasticWorker, c *worker.FitConfig) {
					c.Checkpoint.Dir = dir
					if p.hide {
						c.OnMembership = nil
					}
				}
				j := runElastic(t, p)
				j.wantEnds(map[int]error{0: worker.ErrStopped, 1: worker.ErrStopped, 2: worker.ErrStopped})
				for number := range 3 {
					j.leftAfter(number, 6, 3)
					if got, want := j.workers[number].trainer.Steps(), j.workers[0].trainer.Steps(); got != want {
						t.Errorf("worker %d stopped after %d steps, worker 0 after %d", number, got, want)
					}
				}
				wantCheckpoint(t, dir, 3)
				want := fmt.Sprintf(`level=INFO msg="told to end: all workers stop after step %d, with a checkpoint in %s" on=1 event=leave_asked`, j.workers[1].trainer.Steps(), dir)
				if !strings.Contains(log.String(), want+"\n") || strings.Count(log.String(), "leave_asked") != 1 {
					t.Errorf("the job logged\n%swant one line of leave_asked, %s", &log, want)
				}
			})
		})
	}
}

// When all are told, by somebody who does not tell the scheduler, most may leave; those who may not
// stop cleanly, with a checkpoint from which the rest of the epoch is trained.
func TestAllAreToldToEndOneByOne(t *testing.T) {
	for _, gap := range []time.Duration{0, 3 * time.Millisecond, 20 * time.Millisecond} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			j := runElastic(t, elasticPlan{workers: 4, servers: 1, examples: 157, batch: 3, epochs: 2, optimizer: counted,
				at: func(j *elasticJob, w *elasticWorker, n int) {
					if w.number == 0 && n == 6 {
						j.running.Go(func() {
							for _, x := range j.workers {
								x.leave()
								time.Sleep(gap)
							}
						})
					}
				},
				change: func(_ *elasticWorker, c *worker.FitConfig) { c.Checkpoint.Dir = dir }})
			stopped := 0
			for _, w := range j.workers {
				switch {
				case errors.Is(w.err, worker.ErrStopped):
					stopped++
				case !errors.Is(w.err, worker.ErrRemoved):
					t.Errorf("gap %v: worker %d ended with %v, want ErrRemoved or ErrStopped", gap, w.number, w.err)
				}
			}
			if stopped == 0 {
				t.Errorf("gap %v: nobody stopped, so nobody wrote a checkpoint", gap)
			}
			wantCheckpoint(t, dir, stopped)
			used := j.used
			j = runElastic(t, elasticPlan{workers: 2, servers: 1, examples: 157, batch: 3, epochs: 2, optimizer: counted,
				change: func(_ *elasticWorker, c *worker.FitConfig) {
					c.Checkpoint = worker.CheckpointConfig{Dir: dir, Resume: true}
				}})
			for key, u := range used {
				j.used["before/"+key] = u
			}
			j.wantEnds(nil)
			j.wantOnce()
		})
	}
}

// A launcher that stops the whole job tells the scheduler first: then all stop after the same step,
// however slowly they are told.
func TestAJobThatIsStoppedStopsTogether(t *testing.T) {
	for _, gap := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			j := runElastic(t, elasticPlan{workers: 4, servers: 1, examples: 157, batch: 3, epochs: 2,
				at: func(j *elasticJob, w *elasticWorker, n int) {
					if w.number != 0 || n != 6 {
						return
					}
					if answer, err := j.job.Control(context.Background(), `{"op":"stop"}`); err != nil || answer != "{}" {
						j.t.Errorf("stop: %s, %v", answer, err)
					}
					j.running.Go(func() {
						for _, x := range j.workers {
							x.leave()
							time.Sleep(gap)
						}
					})
				},
				change: func(_ *elasticWorker, c *worker.FitConfig) { c.Checkpoint.Dir = dir }})
			for _, w := range j.workers {
				if !errors.Is(w.err, worker.ErrStopped) || w.trainer.Steps() != j.workers[0].trainer.Steps() {
					t.Errorf("gap %v: worker %d ended with %v after %d steps, want ErrStopped after the %d of worker 0", gap, w.number, w.err, w.trainer.Steps(), j.workers[0].trainer.Steps())
				}
			}
			j.leftAfter(0, 6, 3)
			wantCheckpoint(t, dir, 4)
		})
	}
}

// cutOff keeps all workers from the scheduler for a time.
func (j *elasticJob) cutOff(d time.Duration) {
	for _, w := range j.workers {
		name := fmt.Sprint("worker", w.number)
		j.job.Net.Refuse(name, "scheduler")
		j.job.Net.Cut(name, "scheduler")
		time.AfterFunc(d, func() { j.job.Net.Restore(name, "scheduler") })
	}
}

// While the scheduler is out of reach training goes on. A worker that is told to end leaves when it
// is there again; where all are told, all stop without it.
func TestWorkersAreToldToEndWhileTheSchedulerIsAway(t *testing.T) {
	for _, all := range []bool{false, true} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			j := runElastic(t, elasticPlan{workers: 3, servers: 1, examples: 450, batch: 1, epochs: 2,
				at: func(j *elasticJob, w *elasticWorker, n int) {
					if w.number == 0 && n == 6 {
						j.cutOff(700 * time.Millisecond)
						j.workers[1].leave()
						if all {
							j.workers[0].leave()
							j.workers[2].leave()
						}
					}
				},
				change: func(_ *elasticWorker, c *worker.FitConfig) { c.Checkpoint.Dir = dir }})
			if all {
				j.wantEnds(map[int]error{0: worker.ErrStopped, 1: worker.ErrStopped, 2: worker.ErrStopped})
				j.leftAfter(0, 6, 3)
				wantCheckpoint(t, dir, 3)
				return
			}
			j.wantEnds(map[int]error{1: worker.ErrRemoved})
			if n := j.workers[1].step; n < 50 {
				t.Errorf("worker 1 left after its step %d, while the scheduler was away", n)
			}
			j.wantOnce()
			j.wantValues()
		})
	}
}

// A worker that is told to end before it counts ends, and the job does not miss it.
func TestAWorkerThatJoinsIsToldToEnd(t *testing.T) {
	for _, wait := range []time.Duration{0, 3 * time.Millisecond, 9 * time.Millisecond, 40 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			j := runElastic(t, elasticPlan{workers: 2, servers: 2, examples: 150, batch: 3, epochs: 2, parameters: 2,
				at: func(j *elasticJob, w *elasticWorker, n int) {
					if w.number == 0 && n == 5 {
						x := j.start(2, true)
						time.AfterFunc(wait, x.leave)
					}
				}})
			j.wantEnds(map[int]error{2: worker.ErrRemoved})
			j.wantOnce()
			j.wantValues()
		})
	}
}

// A worker is told to end while another one is lost, and it may be killed before it has left: each
// example is used once.
func TestAWorkerIsToldToEndWhileOthersAreLost(t *testing.T) {
	gaps := []time.Duration{-40, -3, 0, 1, 4, 9}
	if slow() {
		for gap := range time.Duration(40) {
			gaps = append(gaps, gap-20)
		}
	}
	for i, gap := range gaps {
		for k, killed := range []int{0, 1, 3} { // 1 is the one that was told
			if !slow() && k != i%3 {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				j := runElastic(t, elasticPlan{workers: 4, servers: 2, examples: 157, batch: 3, epochs: 2, optimizer: counted,
					at: func(j *elasticJob, w *elasticWorker, n int) {
						if w.number == 2 && n == 6 {
							time.AfterFunc(50*time.Millisecond, j.workers[1].leave)
							time.AfterFunc((50+gap)*time.Millisecond, func() { j.kill(j.workers[killed], gap%2 == 0) })
						}
					}})
				ends := map[int]error{}
				if killed != 1 {
					ends[1] = worker.ErrRemoved
				}
				j.wantEnds(ends)
				j.wantOnce()
				j.wantCounts()
			})
		}
	}
}
