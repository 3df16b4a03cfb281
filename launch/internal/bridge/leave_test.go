package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
)

// stopsEpoch is the request sampler of a Python that knows of stops.
var stopsEpoch = map[string]any{"examples": 40, "batch": 4, "epochs": 1, "seed": 7, "stops": true}

// trainUntilStop takes turns to the end, and says in each turn of kind turnStop that there is a
// checkpoint. at is called in each step.
func (p *player) trainUntilStop(ctx context.Context, at func(turn *turnResult)) (stops []turnResult, last turnResult, err error) {
	var turn turnResult
	err = p.ask(ctx, "sampler", stopsEpoch, &turn)
	for err == nil {
		switch turn.Kind {
		case turnStep:
			at(&turn)
		case turnStop:
			stops = append(stops, turn)
			if err := p.ask(ctx, "stopped", map[string]any{"saved": true}, nil); err == nil {
				p.t.Error("stopped was taken before all had written")
			}
		case turnStopped:
			return stops, turn, p.ask(ctx, "stopped", map[string]any{"saved": true}, nil)
		default:
			return stops, turn, nil
		}
		number := turn.Number
		turn = turnResult{}
		err = p.ask(ctx, "turn", map[string]any{"after": number}, &turn)
	}
	return stops, turn, err
}

// The job's wish to stop with a checkpoint, and the end of a worker that the job needs, are turns on
// all workers.
func TestAllWorkersHaveATurnInWhichTheyStop(t *testing.T) {
	for _, reason := range []string{"checkpoint", "end"} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				job := jobtest.New(t, jobtest.Config{Workers: 2})
				var running sync.WaitGroup
				for rank, kv := range job.Stores(t, "dist_sync") {
					p := play(t, kv)
					running.Go(func() {
						stops, last, err := p.trainUntilStop(t.Context(), func(turn *turnResult) {
							switch {
							case rank != 1 || turn.Step != 1:
							case reason == "end":
								if _, err := leave(t.Context(), p.s, json.RawMessage(`{"id": 0, "reason": "SIGTERM"}`)); err != nil {
									t.Error(err)
								}
							default:
								if answer, err := job.Control(t.Context(), `{"op":"checkpoint-stop","reason":"x"}`); err != nil || answer != "{}" {
									t.Errorf("asked to stop: %s, %v", answer, err)
								}
								<-kv.StopRequested()
							}
						})
						if err != nil || last.Kind != turnStopped || len(stops) != 1 {
							t.Errorf("worker %d ended with turn %+v after %d turns that stop, %v; want one and then %q", rank, last, len(stops), err, turnStopped)
							return
						}
						s := stops[0]
						if s.Stop != reason || s.Steps != 2 || len(s.Cuts) != 1 || s.Cuts[0].Parts != 2 || s.Cuts[0].Used[rank] != 8 {
							t.Errorf("worker %d: the turn that stops is %+v, want reason %q and that both used 8 examples in 2 steps", rank, s, reason)
						}
					})
				}
				running.Wait()
			})
		})
	}
}

// Nothing has stopped before all have, and an answer about it is refused then.
func TestStoppedIsRefusedWithoutAStop(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "dist_sync")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	p := play(t, kv)
	for range 2 {
		if err := p.ask(t.Context(), "stopped", map[string]any{"saved": true}, nil); !errors.Is(err, errUsage) {
			t.Errorf("stopped without a stop: got error %v, want one of class Usage", err)
		}
		_ = p.ask(t.Context(), "sampler", stopsEpoch, nil)
	}
}

// A signal that comes before the sampler is made, as while it joins, counts as well.
func TestAStopThatComesBeforeTheSampler(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "dist_sync")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	p := play(t, kv)
	p.s.turns.told = true
	stops, last, err := p.trainUntilStop(t.Context(), func(*turnResult) {})
	if len(stops) != 1 || stops[0].Steps != 1 || last.Kind != turnStopped || err != nil {
		t.Errorf("the run ended with %+v after stops %+v, %v; want a stop behind the first step", last, stops, err)
	}
}
