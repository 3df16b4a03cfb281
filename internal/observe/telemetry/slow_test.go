package telemetry

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// unsteady are jitters of each worker's work in each step, of 10 %.
var unsteady = map[string]func(*rand.Rand) float64{"uniform": uniform(.1), "normal": normal(.1)}

// A worker that is slowed by 30 % is named by nine steps, so that the tenth may still be on its
// way; and no other one; the reason too. With a jitter of normal distribution nine steps are enough
// in 5 of 6 cases, and twenty in all: the slowed worker is not always the last, and with 64 others
// seldom.
func TestASlowedWorkerIsNamedWithinTenSteps(t *testing.T) {
	for name, jitter := range unsteady {
		for _, workers := range []int{2, 3, 4, 8, 16, 64} {
			for _, steps := range []int{9, 20} {
				const runs = 50
				named := 0
				for seed := range uint64(runs) {
					j := newTraining(seed, workers, jitter)
					slow := int(seed) % workers
					j.compute[slow] *= 1.3
					s, ok := FindSlow(j.window(steps))
					if !ok {
						continue
					}
					named++
					if s.Node != firstID+uint64(slow) || s.Cause != CauseCompute || s.Ratio < 1.15 || s.Ratio > 1.45 || s.Steps != float64(steps) || s.Rounds != float64(steps) {
						t.Fatalf("%s, %d workers, seed %d: got %+v, want node %d with compute of 1.3 times the others'", name, workers, seed, s, firstID+slow)
					}
				}
				want := map[string]int{"uniform": runs, "normal": runs * 9 / 10}[name]
				if name == "normal" && steps == 9 {
					want = map[bool]int{false: 40, true: 35}[workers == 64]
				}
				if named < want {
					t.Errorf("%s, %d workers: named in %d of %d windows of %d steps, want at least %d", name, workers, named, runs, steps, want)
				}
			}
		}
	}
}

// No one is named where all are equally fast, however much their steps vary. Measured over 4,000
// windows of ten steps: of 10 % at most one, of 20 and 30 % one in 220 with two workers, fewer with
// more.
func TestNoOneIsNamedAmongEquals(t *testing.T) {
	for _, noise := range []struct {
		name   string
		jitter func(*rand.Rand) float64
		most   float64
	}{{"uniform 10 %", uniform(.1), 0}, {"normal 10 %", normal(.1), .002}, {"normal 20 %", normal(.2), .01}, {"normal 30 %", normal(.3), .01}} {
		for workers, windows := range map[int]int{2: 500, 3: 400, 8: 200, 64: 20} {
			for _, steps := range []int{9, 30} {
				named := 0
				for seed := range uint64(windows) {
					j := newTraining(seed, workers, noise.jitter)
					j.shards, j.tally.Shards = 1, 1
					if s, ok := FindSlow(j.window(steps)); ok {
						named++
						t.Logf("%s, %d workers, seed %d: %+v", noise.name, workers, seed, s)
					}
				}
				if most := int(math.Round(noise.most * float64(windows))); named > most {
					t.Errorf("%s, %d workers: someone was named in %d of %d windows of %d steps, want at most %d", noise.name, workers, named, windows, steps, most)
				}
			}
		}
	}
}

// A worker whose steps vary by 30 %, among others whose steps do not, is last in half of the
// rounds. It is as often early, so it is not slow. Measured: it is named in at most one of 190
// windows.
func TestAWorkerWhoseStepsMerelyVaryIsNotSlow(t *testing.T) {
	for name, jitter := range map[string]func(*rand.Rand) float64{"uniform": uniform(.3), "normal": normal(.3)} {
		for workers, windows := range map[int]int{2: 320, 4: 320, 8: 160, 64: 40} {
			for _, steps := range []int{9, 30} {
				named := 0
				for seed := range uint64(windows) {
					j := newTraining(seed, workers, normal(.02))
					j.shards, j.tally.Shards = 1, 1
					j.own = map[int]func(*rand.Rand) float64{1: jitter}
					if _, ok := FindSlow(j.window(steps)); ok {
						named++
					}
				}
				if most := (windows + 40) / 80; named > most {
					t.Errorf("%s, %d workers: the jittery one was named in %d of %d windows of %d steps, want at most %d", name, workers, named, windows, steps, most)
				}
			}
		}
	}
}

// What the reason is found from.
func TestCauses(t *testing.T) {
	for _, tc := range []struct {
		what   string
		change func(j *training)
		cause  string
		ratio  float64
	}{
		{"compute", func(j *training) { j.compute[1] += .3 }, CauseCompute, 1.3},
		{"data", func(j *training) { j.data[1] += .3 }, CauseData, 16},
		{"data of one that is the only one to wait for any", func(j *training) { clear(j.data); j.data[1] = .3 }, CauseData, 0},
		{"network", func(j *training) { j.network[1] += .3 }, CauseNetwork, 0},
		{"network, and a little compute", func(j *training) { j.network[1] += .3; j.compute[1] += .04 }, CauseNetwork, 0},
		{"no reports", func(j *training) { j.compute[1] += .3; j.silent = true }, "", 0},
		{"reports of steps alone", func(j *training) { j.compute[1] += .3; j.plain = true }, "", 0},
		{"late by most of a step", func(j *training) { j.compute[1] += .3; j.slack = .7 }, CauseCompute, 1.3},
		{"compute, without reports of data and checkpoints", func(j *training) {
			j.compute[1] += .3
			for i := range j.tally.Workers {
				j.tally.Workers[i].DataSeconds, j.tally.Workers[i].SaveSeconds = math.NaN(), math.NaN()
			}
		}, CauseCompute, 1.3},
		{"compute, from before the first step on", func(j *training) {
			j.compute[1] += .3
			for i := range j.tally.Workers {
				j.tally.Workers[i] = WorkerTally{Node: j.tally.Workers[i].Node, Steps: math.NaN(), StepSeconds: math.NaN(), WaitSeconds: math.NaN()}
			}
		}, CauseCompute, 1.3},
		{"local steps", func(j *training) { j.compute[1] += .3; j.local = 16 }, CauseCompute, 1.3},
	} {
		j := newTraining(1, 4, uniform(.05))
		tc.change(j)
		from := *j.now()
		for i := range j.tally.Workers {
			w := &j.tally.Workers[i]
			w.Steps, w.StepSeconds, w.WaitSeconds = orZero(w.Steps), orZero(w.StepSeconds), orZero(w.WaitSeconds)
		}
		s, ok := FindSlow(append([]Tally{from}, j.window(12)[1:]...))
		if !ok || s.Node != firstID+1 || s.Cause != tc.cause || math.Abs(s.Ratio-tc.ratio) > .1*tc.ratio {
			t.Errorf("%s: got %+v, %t; want node %d, cause %q, ratio %g", tc.what, s, ok, firstID+1, tc.cause, tc.ratio)
		}
	}
	j := newTraining(1, 4, uniform(.05)) // a checkpoint at each step
	list := []Tally{*j.now()}
	for range 12 {
		j.save[0] = .5
		j.step()
		list = append(list, *j.now())
	}
	if s, ok := FindSlow(list); ok {
		t.Errorf("checkpoints: got %+v, want no one", s)
	}
}

// A worker that was late once goes on being the last, if the others have work to do until they need
// the value. No one waits, so it is not slow.
func TestWhoIsLastButNotWaitedForIsNotSlow(t *testing.T) {
	j := newTraining(1, 3, uniform(.001))
	j.slack = .7
	j.save[1] = .5
	j.step()
	list := j.window(12)
	if s, ok := FindSlow(list); ok {
		t.Errorf("got %+v, want no one", s)
	}
	if d := growth(&list[0], &list[12])[1]; d.BlamedRounds != 12*8 || d.BlamedSeconds < .3*12*8 {
		t.Errorf("it is charged with %v rounds and %v s, want all 96 and over .3 s each", d.BlamedRounds, d.BlamedSeconds)
	}
}

func TestAtLeast(t *testing.T) {
	for _, tc := range []struct{ k, n, p, want float64 }{
		{10, 10, .5, 1. / 1024}, {9, 10, .5, 11. / 1024}, {0, 10, .5, 1}, {7.995, 10, 1. / 3, .0034}, {1, 1, .25, .25}, {1000, 1000, .5, 0}, {501, 1000, .25, 0}, {6, 5, .5, 0},
	} {
		if got := atLeast(tc.k, tc.n, tc.p); math.Abs(got-tc.want) > .00005 {
			t.Errorf("at least %g of %g of probability %g: got %g, want %g", tc.k, tc.n, tc.p, got, tc.want)
		}
	}
}

func TestFindSlowNeedsSomethingToJudgeBy(t *testing.T) {
	j := newTraining(1, 3, uniform(0))
	j.compute[0] = 2
	list := j.window(leastSteps)
	for n := range leastSteps {
		if s, ok := FindSlow(list[:n+1]); ok {
			t.Errorf("%d steps: %+v", n, s)
		}
	}
	if s, ok := FindSlow([]Tally{list[0], list[leastSteps]}); ok {
		t.Errorf("at two times: %+v", s)
	}
	if _, ok := FindSlow(list); !ok {
		t.Errorf("%d steps: no one is named", leastSteps)
	}
	for what, change := range map[string]func(*Tally){
		"counts went back":         func(x *Tally) { x.Workers[0].BlamedSeconds = -1 },
		"not a number":             func(x *Tally) { x.Workers[0].BlamedRounds = math.NaN() },
		"the worker is new":        func(x *Tally) { x.Workers[0].Node = 1 },
		"no shards are known":      func(x *Tally) { x.Shards = 0 },
		"rounds are not known":     func(x *Tally) { x.Rounds = math.NaN() },
		"no time has gone by":      func(x *Tally) { x.At = list[0].At },
		"asynchronous: no charges": func(x *Tally) { x.Workers[0].BlamedRounds, x.Workers[0].BlamedSeconds = 0, 0 },
	} {
		x := list[leastSteps]
		x.Workers = append([]WorkerTally(nil), x.Workers...)
		change(&x)
		if s, ok := FindSlow(append(append([]Tally(nil), list[:leastSteps]...), x)); ok {
			t.Errorf("%s: %+v", what, s)
		}
	}
	if s, ok := new(SlowWatch).Slow(); ok {
		t.Errorf("an empty watch: %+v", s)
	}
}

// Counts that no job reaches, as a broken server or worker may report, name no one, and cost no
// time.
func TestNonsenseNamesNoOne(t *testing.T) {
	plain := func() (list []Tally, to *Tally) {
		for i := range 5 {
			x := float64(i)
			list = append(list, Tally{At: time.Duration(i) * 2 * time.Second, Rounds: 10 + 25*x, Shards: 1, Workers: []WorkerTally{{Node: 1, BlamedRounds: 25 * x, BlamedSeconds: 1.25 * x}, {Node: 2}, {Node: 3}}})
		}
		return list, &list[4]
	}
	list, _ := plain()
	if s, ok := FindSlow(list); !ok || s.Node != 1 {
		t.Fatalf("without nonsense: got %+v, %t; want node 1", s, ok)
	}
	for _, huge := range []float64{1e12, 1e17, 1e300, math.MaxFloat64, math.Inf(1)} {
		for name, set := range map[string]func(to *Tally){
			"rounds": func(to *Tally) { to.Rounds = huge },
			"rounds and blames": func(to *Tally) {
				to.Rounds, to.Workers[0].BlamedRounds, to.Workers[1].BlamedRounds = huge, .7*huge, .3*huge
			},
			"shards":     func(to *Tally) { to.Shards = huge },
			"few shards": func(to *Tally) { to.Shards = 1 / huge },
			"gap":        func(to *Tally) { to.Workers[0].BlamedSeconds = huge },
			"steps": func(to *Tally) {
				for i := range to.Workers {
					to.Workers[i].Steps, to.Workers[i].StepSeconds = huge, huge/1e9
				}
			},
			"step times": func(to *Tally) {
				for i := range to.Workers {
					to.Workers[i].Steps, to.Workers[i].StepSeconds = 100, huge
				}
			},
		} {
			list, to := plain()
			set(to)
			if s, ok := FindSlow(list); ok {
				t.Errorf("%s of %g: got %+v, want no one", name, huge, s)
			}
		}
	}
}
