package kvstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/kvstore"
)

// byNext trains as a program does that loads examples ahead: it reads those of several steps at
// once, and drops them where the division changes.
func (w *loopWorker) byNext(ctx context.Context, examples *kvstore.ElasticSampler) error {
	const ahead = 3
	w.turns = map[string]string{}
	var loaded []int
	var from int
	var division uint64
	for {
		turn, err := examples.Next(ctx)
		if err != nil {
			return err
		}
		w.note(&turn)
		if turn.Over {
			return nil
		}
		if turn.Left == 0 {
			w.seen = append(w.seen, fmt.Sprintf("%d:%d", turn.Epoch, w.kv.NumWorkers()))
			continue
		}
		if turn.Division != division {
			division, loaded, from = turn.Division, nil, turn.First
		}
		if turn.First+turn.Size > from+len(loaded) {
			loaded, from = examples.Examples(turn.First, make([]int, ahead*w.j.cfg.Batch)), turn.First
		}
		batch := loaded[turn.First-from:][:turn.Size]
		if err := w.step(ctx, examples, turn.Epoch, batch); err != nil {
			return err
		}
	}
}

// note keeps what a turn says to all workers alike.
func (w *loopWorker) note(turn *kvstore.SamplerTurn) {
	at := fmt.Sprintf("epoch %d step %d of all %d", turn.Epoch, turn.Step, turn.Steps)
	w.turns[at] = fmt.Sprintf("left %d over %v batch %d joined %v survivor %d", turn.Left, turn.Over, turn.GlobalBatch, turn.Joined, turn.Survivor)
}

// wantAlike fails the test if two workers were told different things of the same turn.
func (j *loopJob) wantAlike() {
	j.t.Helper()
	for _, a := range j.workers {
		for _, b := range j.workers {
			for at, told := range a.turns {
				if other, ok := b.turns[at]; ok && other != told {
					j.t.Errorf("%s: worker %d was told %q, worker %d %q", at, a.number, told, b.number, other)
				}
			}
		}
	}
}

// All workers, those that join included, hear alike who joined and who was there before: whether
// survivors stay, or the lowest rank leaves with the same change.
func TestAllWorkersHearWhoJoined(t *testing.T) {
	for _, leaver := range []int{-1, 0} {
		t.Run(fmt.Sprint("leaves ", leaver), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &loopJob{t: t, cfg: kvstore.SamplerConfig{Examples: 120, Batch: 4, Epochs: 2, Seed: 3}, byNext: true}
				j.at = func(w *loopWorker, epoch, step int) {
					time.Sleep(100 * time.Millisecond)
					if w.number != 0 || step != 2 {
						return
					}
					j.join(2)
					j.join(3)
					if leaver == 0 {
						if err := w.kv.AskLeave(t.Context(), "told to"); err != nil {
							t.Error(err)
						}
					}
				}
				j.run(2)
				j.wantAlike()
				joined := 0
				for _, told := range j.workers[3].turns {
					if strings.Contains(told, "joined true survivor 0") {
						joined++
					}
				}
				if joined == 0 || joined == len(j.workers[3].turns) {
					t.Errorf("the last worker has %d of %d turns with joined true and survivor 0, want some: of its first division", joined, len(j.workers[3].turns))
				}
			})
		})
	}
}

// Next and Examples give what the loops give, and say how the division goes on.
func TestTurnsAreTheLoopsSteps(t *testing.T) {
	for _, kind := range []string{"local", "dist_sync", "dist_async"} {
		var samplers [2]*kvstore.ElasticSampler
		for i := range samplers {
			kv, err := kvstore.Create(t.Context(), kind)
			if err != nil {
				t.Fatal(err)
			}
			defer kv.Close()
			if samplers[i], err = kvstore.NewElasticSampler(t.Context(), kv, kvstore.SamplerConfig{Examples: 7, Batch: 3, Epochs: 2, Seed: 5}); err != nil {
				t.Fatal(err)
			}
		}
		for epoch := range samplers[0].Epochs() {
			left := 3
			for batch := range samplers[0].Batches(t.Context()) {
				turn, err := samplers[1].Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				got := samplers[1].Examples(turn.First, make([]int, turn.Size))
				want := kvstore.SamplerTurn{Epoch: epoch, Step: uint64(3 - left), Steps: samplers[0].Steps(), Left: left, Division: uint64(1 + epoch), First: 3 * (3 - left), Size: len(batch), Share: 7, GlobalBatch: len(batch)}
				if turn != want || !slices.Equal(got, batch) {
					t.Errorf("store %s: got turn %+v with examples %v, want %+v with %v", kind, turn, got, want, batch)
				}
				left--
			}
			end, err := samplers[1].Next(t.Context())
			if want := (kvstore.SamplerTurn{Epoch: epoch, Step: 3, Steps: uint64(3 + 3*epoch), Division: uint64(1 + epoch), First: 7, Share: 7}); err != nil || end != want {
				t.Errorf("store %s: got turn %+v and error %v, want %+v", kind, end, err, want)
			}
			if all := samplers[1].Examples(0, make([]int, 9)); len(all) != 7 || len(samplers[1].Examples(7, make([]int, 9))) != 0 {
				t.Errorf("store %s: the share has examples %v, want 7 and none behind them", kind, all)
			}
		}
		for range 2 {
			if turn, err := samplers[1].Next(t.Context()); err != nil || !turn.Over || turn.Left != 0 || len(samplers[1].Examples(0, make([]int, 1))) != 0 {
				t.Errorf("store %s: got turn %+v and error %v behind the last epoch, want one that is over", kind, turn, err)
			}
		}
	}
}

// A sampler has one driver.
func TestNextAndLoopsDoNotMix(t *testing.T) {
	ctx := t.Context()
	for name, use := range map[string]func(s *kvstore.ElasticSampler){
		"Next was called within a loop": func(s *kvstore.ElasticSampler) {
			for range s.Epochs() {
				for range s.Batches(ctx) {
					if _, err := s.Next(ctx); err == nil {
						t.Error("Next within a loop over Batches has no error")
					}
				}
			}
		},
		"Epochs: Next was called before": func(s *kvstore.ElasticSampler) {
			for range s.Epochs() {
				t.Error("an epoch of a sampler that Next drives")
			}
		},
		"Batches: Next was called before": func(s *kvstore.ElasticSampler) {
			for range s.Batches(ctx) {
				t.Error("a batch of a sampler that Next drives")
			}
		},
	} {
		kv, err := kvstore.Create(ctx, "dist_sync")
		if err != nil {
			t.Fatal(err)
		}
		s, err := kvstore.NewElasticSampler(ctx, kv, kvstore.SamplerConfig{Examples: 4, Batch: 2, Epochs: 2})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(name, "before") {
			if _, err := s.Next(ctx); err != nil {
				t.Fatal(err)
			}
		}
		use(s)
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got error %v, want %q", err, name)
		}
		if _, err := s.Next(ctx); err == nil {
			t.Errorf("%s: the next turn has no error", name)
		}
		kv.Close()
	}
}

// What is read ahead is of the division of now, also where the last one was read up to that place.
func TestExamplesAreOfTheNewestDivision(t *testing.T) {
	var read [2][]int
	for i := range read {
		kv, err := kvstore.Create(t.Context(), "local")
		if err != nil {
			t.Fatal(err)
		}
		defer kv.Close()
		s, err := kvstore.NewElasticSampler(t.Context(), kv, kvstore.SamplerConfig{Examples: 50, Batch: 50, Epochs: 2, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		for turn := range 3 {
			if _, err := s.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
			if turn == 0 && i == 1 {
				s.Examples(0, make([]int, 20))
			}
		}
		read[i] = s.Examples(20, make([]int, 20))
	}
	if len(read[0]) != 20 || !slices.Equal(read[0], read[1]) {
		t.Errorf("got examples %v of the second epoch after some of the first were read, want %v", read[1], read[0])
	}
}
