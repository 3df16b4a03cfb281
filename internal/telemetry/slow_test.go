package telemetry

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// A training is a made-up job in which all workers begin each step together, once they have what the servers made of the step before.
type training struct {
	random  *rand.Rand
	jitter  func(*rand.Rand) float64 // of each worker's work in a step: a factor
	shards  int
	tally   Tally
	compute []float64 // seconds of each step, by worker
	data    []float64
	network []float64 // seconds from its gradient to a whole contribution
	save    []float64 // in the next step alone
	silent  bool      // workers report no steps
	plain   bool      // workers report no times but the step's
	slack   float64   // seconds that each worker computes after its push without the new value
	began   []float64 // with slack: when each worker began its step
	ended   float64   // with slack: when the last round did
	local   int       // steps of which the servers see the last; 0 or 1: all
}

const (
	aStep   = 1.   // seconds of compute
	aData   = .02  // seconds waiting for data
	aTrip   = .05  // seconds for a contribution
	firstID = 1000 // nodes are numbered from here
)

func newTraining(seed uint64, workers int, jitter func(*rand.Rand) float64) *training {
	j := &training{random: rand.New(rand.NewPCG(seed, 7)), jitter: jitter, shards: 8}
	j.tally.Shards = 8
	for range workers {
		j.join()
	}
	return j
}

func (j *training) join() {
	node := uint64(firstID)
	if n := len(j.tally.Workers); n > 0 {
		node = j.tally.Workers[n-1].Node + 1
	}
	j.tally.Workers = append(j.tally.Workers, WorkerTally{Node: node})
	j.compute, j.data, j.network, j.save = append(j.compute, aStep), append(j.data, aData), append(j.network, aTrip), append(j.save, 0)
}

func (j *training) leave(i int) {
	cut := func(list *[]float64) { *list = append((*list)[:i:i], (*list)[i+1:]...) }
	j.tally.Workers = append(j.tally.Workers[:i:i], j.tally.Workers[i+1:]...)
	cut(&j.compute)
	cut(&j.data)
	cut(&j.network)
	cut(&j.save)
}

// step makes one step of all.
func (j *training) step() {
	workers := len(j.tally.Workers)
	busy, came := make([]float64, workers), make([]float64, workers)
	local := max(j.local, 1)
	for range local {
		for i := range busy {
			busy[i] += j.compute[i] * j.jitter(j.random)
		}
	}
	last := 0.
	for i := range busy {
		came[i] = busy[i] + j.data[i]*float64(local) + j.save[i] + j.network[i]*j.jitter(j.random)
		last = max(last, came[i])
	}
	wait := make([]float64, workers)
	for i := range came {
		wait[i] = last - busy[i] - j.data[i]*float64(local) - j.save[i]
	}
	if j.slack > 0 { // values are there when the last contribution is, and each worker needs them after its slack
		j.began = append(j.began, make([]float64, workers-len(j.began))...)
		all := 0.
		for i := range came {
			came[i] += j.began[i]
			all = max(all, came[i])
		}
		for i := range came {
			wait[i] = max(.001, all-came[i]-j.slack) // to look whether it is there
			j.began[i] = came[i] + wait[i]
		}
		last = all - j.ended
		j.ended = all
	}
	for i := range j.tally.Workers {
		w := &j.tally.Workers[i]
		if j.plain {
			w.Steps++
			w.StepSeconds += last
			continue
		}
		if j.silent {
			w.Steps, w.StepSeconds, w.WaitSeconds, w.DataSeconds, w.SaveSeconds = math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()
			continue
		}
		w.Steps += float64(local)
		w.StepSeconds += last
		w.DataSeconds += j.data[i] * float64(local)
		w.SaveSeconds += j.save[i]
		w.WaitSeconds += wait[i]
		j.save[i] = 0
	}
	for range j.shards { // whose contributions come a little before or behind one another
		first, second, who := math.Inf(-1), math.Inf(-1), 0
		for i := range came {
			at := came[i] - .002*j.random.Float64()
			switch {
			case at > first:
				first, second, who = at, first, i
			case at > second:
				second = at
			}
		}
		if workers > 1 {
			j.tally.Workers[who].BlamedRounds++
			j.tally.Workers[who].BlamedSeconds += first - second
		}
		j.tally.Rounds++
	}
	j.tally.At += time.Duration(last * 1e9)
}

func (j *training) steps(n int) {
	for range n {
		j.step()
	}
}

// now is a copy of the tally.
func (j *training) now() *Tally {
	t := j.tally
	t.Workers = append([]WorkerTally(nil), t.Workers...)
	return &t
}

func normal(sigma float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return math.Max(.1, 1+sigma*r.NormFloat64()) }
}

func uniform(width float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return 1 + width*(2*r.Float64()-1) }
}

// unsteady are jitters of each worker's work in each step, of 10 %.
var unsteady = map[string]func(*rand.Rand) float64{"uniform": uniform(.1), "normal": normal(.1)}

// A worker that is slowed by 30 % is named by ten steps, and no other one; the reason too. With a jitter of normal distribution ten steps are enough in 3 of
// 4 cases where there are two workers, and twenty in all: one of two equal workers may be last nine times of ten by chance.
func TestASlowedWorkerIsNamedWithinTenSteps(t *testing.T) {
	for name, jitter := range unsteady {
		for _, workers := range []int{2, 3, 4, 8, 16, 64} {
			for _, steps := range []int{10, 20} {
				const runs = 50
				named := 0
				for seed := range uint64(runs) {
					j := newTraining(seed, workers, jitter)
					slow := int(seed) % workers
					j.compute[slow] *= 1.3
					from := j.now()
					j.steps(steps)
					s, ok := FindSlow(from, j.now())
					if !ok {
						continue
					}
					named++
					if s.Node != firstID+uint64(slow) || s.Cause != CauseCompute || s.Ratio < 1.15 || s.Ratio > 1.45 || s.Steps != float64(steps) || s.Rounds != float64(steps) {
						t.Fatalf("%s, %d workers, seed %d: got %+v, want node %d with compute of 1.3 times the others'", name, workers, seed, s, firstID+slow)
					}
				}
				want := map[string]int{"uniform": runs, "normal": runs * 9 / 10}[name]
				if name == "normal" && steps == 10 {
					want = map[int]int{2: 32, 3: 40, 64: 30}[workers]
				}
				if named < want {
					t.Errorf("%s, %d workers: named in %d of %d windows of %d steps, want at least %d", name, workers, named, runs, steps, want)
				}
			}
		}
	}
}

// No one is named where all are equally fast. Measured over 514,583 steps with jitter of uniform distribution: none; of normal distribution: one in 5,000
// windows of ten steps, at most (8 workers), and none in windows of a hundred.
func TestNoOneIsNamedAmongEquals(t *testing.T) {
	for name, jitter := range unsteady {
		for workers, windows := range map[int]int{2: 1500, 3: 1000, 8: 400, 64: 40} {
			for _, steps := range []int{10, 30} {
				named := 0
				for seed := range uint64(windows) {
					j := newTraining(seed, workers, jitter)
					j.shards, j.tally.Shards = 1, 1
					from := j.now()
					j.steps(steps)
					if s, ok := FindSlow(from, j.now()); ok {
						named++
						t.Logf("%s, %d workers, seed %d: %+v", name, workers, seed, s)
					}
				}
				if most := map[string]int{"uniform": 0, "normal": 2}[name]; named > most {
					t.Errorf("%s, %d workers: someone was named in %d of %d windows of %d steps, want at most %d", name, workers, named, windows, steps, most)
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
		from := j.now()
		for i := range j.tally.Workers {
			w := &j.tally.Workers[i]
			w.Steps, w.StepSeconds, w.WaitSeconds = orZero(w.Steps), orZero(w.StepSeconds), orZero(w.WaitSeconds)
		}
		j.steps(12)
		s, ok := FindSlow(from, j.now())
		if !ok || s.Node != firstID+1 || s.Cause != tc.cause || math.Abs(s.Ratio-tc.ratio) > .1*tc.ratio {
			t.Errorf("%s: got %+v, %t; want node %d, cause %q, ratio %g", tc.what, s, ok, firstID+1, tc.cause, tc.ratio)
		}
	}
	j := newTraining(1, 4, uniform(.05)) // a checkpoint at each step
	from := j.now()
	for range 12 {
		j.save[0] = .5
		j.step()
	}
	if s, ok := FindSlow(from, j.now()); ok {
		t.Errorf("checkpoints: got %+v, want no one", s)
	}
}

// A worker that was late once goes on being the last, if the others have work to do until they need the value. No one waits, so it is not slow.
func TestWhoIsLastButNotWaitedForIsNotSlow(t *testing.T) {
	j := newTraining(1, 3, uniform(.001))
	j.slack = .7
	j.save[1] = .5
	j.step()
	from := j.now()
	j.steps(12)
	to := j.now()
	if s, ok := FindSlow(from, to); ok {
		t.Errorf("got %+v, want no one", s)
	}
	if d := growth(from, to)[1]; d.BlamedRounds != 12*8 || d.BlamedSeconds < .3*12*8 {
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

// watched makes steps, and adds a tally after each second, as heartbeats do. It returns after how many steps somebody is named.
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

// A worker that becomes slow in a running job is named ten steps later, however long the job ran, and is no longer when it is as fast as the others again.
func TestWatchNamesWhoHasBecomeSlow(t *testing.T) {
	for _, scale := range []float64{.02, .2, 1, 30} { // seconds of a step
		j, w := newTraining(3, 3, uniform(.1)), &SlowWatch{}
		for i := range j.compute {
			j.compute[i], j.data[i], j.network[i] = scale*aStep, scale*aData, scale*aTrip
		}
		if s, _ := watched(w, j, 200); s.Node != 0 {
			t.Fatalf("steps of %g s: %+v is named, want no one", scale, s)
		}
		j.compute[2] *= 1.3
		within := 10 + int(math.Ceil(2/scale)) // heartbeats come once a second
		s, after := watched(w, j, 100)
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

// Single late steps name no one: a checkpoint or an evaluation of rank 0, workers that come and go, a restart of a server or of the scheduler.
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

// A worker that evaluates in every 20th step, for five steps, is named at few of the steps: at 0.1 to 0.2 % of 100,000.
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

func TestFindSlowNeedsSomethingToJudgeBy(t *testing.T) {
	j := newTraining(1, 3, uniform(0))
	j.compute[0] = 2
	from := j.now()
	if s, ok := FindSlow(from, from); ok {
		t.Errorf("at one time: %+v", s)
	}
	j.steps(9)
	if s, ok := FindSlow(from, j.now()); ok {
		t.Errorf("nine steps: %+v", s)
	}
	j.steps(3)
	to := j.now()
	if _, ok := FindSlow(from, to); !ok {
		t.Error("twelve steps: no one is named")
	}
	for what, change := range map[string]func(*Tally){
		"counts went back":         func(x *Tally) { x.Workers[0].BlamedSeconds = -1 },
		"not a number":             func(x *Tally) { x.Workers[0].BlamedRounds = math.NaN() },
		"the worker is new":        func(x *Tally) { x.Workers[0].Node = 1 },
		"no shards are known":      func(x *Tally) { x.Shards = 0 },
		"rounds are not known":     func(x *Tally) { x.Rounds = math.NaN() },
		"no time has gone by":      func(x *Tally) { x.At = from.At },
		"asynchronous: no charges": func(x *Tally) { x.Workers[0].BlamedRounds, x.Workers[0].BlamedSeconds = 0, 0 },
	} {
		x := *to
		x.Workers = append([]WorkerTally(nil), to.Workers...)
		change(&x)
		if s, ok := FindSlow(from, &x); ok {
			t.Errorf("%s: %+v", what, s)
		}
	}
	if s, ok := new(SlowWatch).Slow(); ok {
		t.Errorf("an empty watch: %+v", s)
	}
}

// Counts that no job reaches, as a broken server or worker may report, name no one, and cost no time.
func TestNonsenseNamesNoOne(t *testing.T) {
	plain := func() (from, to Tally) {
		from = Tally{Rounds: 10, Shards: 1, Workers: []WorkerTally{{Node: 1}, {Node: 2}, {Node: 3}}}
		to = Tally{At: 10 * time.Second, Rounds: 110, Shards: 1, Workers: []WorkerTally{{Node: 1, BlamedRounds: 100, BlamedSeconds: 5}, {Node: 2}, {Node: 3}}}
		return from, to
	}
	from, to := plain()
	if s, ok := FindSlow(&from, &to); !ok || s.Node != 1 {
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
			from, to := plain()
			set(&to)
			if s, ok := FindSlow(&from, &to); ok {
				t.Errorf("%s of %g: got %+v, want no one", name, huge, s)
			}
		}
	}
}
