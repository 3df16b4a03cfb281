package telemetry

import (
	"math"
	"testing"
)

// watched makes steps, and adds a tally after each second, as heartbeats do. It returns after how
// many steps somebody is named.
func watched(w *SlowWatch, j *training, steps int) (s Slow, after int) {
	next := j.tally.At
	for i := range steps {
		j.step()
		if j.tally.At < next {
			continue
		}
		next = j.tally.At + tallyEvery
		w.Add(*j.now())
		if x, ok := w.Slow(); ok && after == 0 {
			s, after = x, i+1
		}
	}
	return s, after
}

// A worker that becomes slow in a running job is named within ten steps, or within four heartbeats
// if these are more steps, however long the job ran, and is no longer when it is as fast as the
// others again. Steps of a second and more may come with a heartbeat's delay: nine are enough.
func TestWatchNamesWhoHasBecomeSlow(t *testing.T) {
	for _, scale := range []float64{.02, .2, 1, 30} { // seconds of a step
		j, w := newTraining(3, 3, uniform(.1)), &SlowWatch{}
		for i := range j.compute {
			j.compute[i], j.data[i], j.network[i] = scale*aStep, scale*aData, scale*aTrip
		}
		if s, _ := watched(w, j, 400); s.Node != 0 {
			t.Fatalf("steps of %g s: %+v is named, want no one", scale, s)
		}
		j.compute[2] *= 1.3
		within := max(9, int(4/scale))
		s, after := watched(w, j, 250)
		t.Logf("steps of %g s: named after %d steps", scale, after)
		if s.Node != firstID+2 || after > within {
			t.Errorf("steps of %g s: got %+v after %d steps, want node %d within %d", scale, s, after, firstID+2, within)
		}
		for range int(100/scale) + 100 {
			j.step()
			w.Add(*j.now())
		}
		s, ok := w.Slow()
		if want := max(10, min(float64(len(w.tallies)), 30/1.3/scale)); !ok || s.Steps < .9*want-1 || s.Gap < .15*scale || s.Share < .9 || math.Abs(s.Ratio-1.3) > .05 {
			t.Errorf("steps of %g s: it goes on: got %+v, %t; want some %g steps", scale, s, ok, want)
		}
		if len(w.tallies) > maxTallies {
			t.Errorf("steps of %g s: %d tallies are kept, want at most %d", scale, len(w.tallies), maxTallies)
		}
		j.compute[2] /= 1.3
		for range within {
			j.step()
			w.Add(*j.now())
		}
		if s, ok := w.Slow(); ok {
			t.Errorf("steps of %g s: %+v is named after %d steps as fast as the others", scale, s, within)
		}
	}
}

// Single late steps name no one: a checkpoint or an evaluation of rank 0, workers that come and go,
// a restart of a server or of the scheduler.
func TestWatchIsNotMisledByEvents(t *testing.T) {
	for seed := range uint64(20) {
		j, w := newTraining(seed, 4, uniform(.1)), &SlowWatch{}
		quiet := func(what string, steps int) {
			t.Helper()
			if s, after := watched(w, j, steps); after != 0 {
				t.Errorf("seed %d: %s: %+v is named after %d steps, want no one", seed, what, s, after)
			}
		}
		quiet("begin", 3)
		for range 10 {
			j.save[0] = 7
			quiet("checkpoint", 8)
		}
		j.join()
		j.save[4] = 20 // its first batch
		quiet("a worker joins", 25)
		j.leave(0)
		quiet("a worker leaves", 25)
		j.join()
		j.join()
		j.save[0] = 3
		quiet("two join, and an evaluation", 25)
		j.leave(2)
		j.tally.Rounds, j.tally.Shards = j.tally.Rounds/3, 8 // a scheduler that knows less
		quiet("a restart", 25)
		for range 3 {
			j.leave(0)
		}
		quiet("two are left", 40)
		j.leave(0)
		quiet("one is left", 40)
	}
}

// A worker that evaluates in every 20th step, for five steps, is named at few of the steps: at 0.1
// to 0.2 % of 100,000.
func TestEvaluationsNameNoOne(t *testing.T) {
	for _, workers := range []int{2, 3, 4} {
		j, w, named := newTraining(1, workers, uniform(.1)), &SlowWatch{}, 0
		j.shards, j.tally.Shards = 1, 1
		for i := range 4000 {
			pause := 0.
			if i%20 == 0 {
				pause = 5
			}
			j.compute[0] += pause
			j.step()
			j.compute[0] -= pause
			w.Add(*j.now())
			if _, ok := w.Slow(); ok {
				named++
			}
		}
		if named > 20 {
			t.Errorf("%d workers: someone is named at %d of 4000 steps, want at most 20", workers, named)
		}
	}
}
