package curvetest

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/paragon-train/paragon/tune"
)

// A Search proposes trials and decides about them. Simulate calls it from one goroutine, with the
// simulated time since the search began.
type Search interface {
	// Next is what a free worker does: a new trial, which has the number that follows the
	// newest one's, or one that was paused. It returns tune.ErrWait if there is nothing to do
	// before another report, and tune.ErrDone if there will be no more trials.
	Next(now time.Duration) (trial int, p tune.Params, err error)
	// Report decides about a running trial that has reached a step. A value of NaN is a
	// divergence, after which the trial is over. last says that the training ends there by
	// itself. After any other answer than tune.Continue the trial's worker is free.
	Report(now time.Duration, trial, step int, value float64, last bool) (tune.Action, error)
	// End says that a trial which was paused at its last step has nothing left to train after
	// Next has chosen it.
	End(now time.Duration, trial int) error
	// Close ends the search.
	Close() error
}

// A Leveled is a Search whose trials train anew for another number of steps whenever Next chooses
// them, with one report at the end: the steps are a fidelity. Only those that trained to their last
// step can be named best.
type Leveled interface {
	// Level is the number of steps by the parameters that Next returned; 0: the search has no
	// levels.
	Level(p tune.Params) int
}

// A Config is how a search is simulated.
type Config struct {
	// Workers is how many trials run at once. Zero is 1.
	Workers int
	// Seed is that of the trainings.
	Seed uint64
	// Trainings is the budget, in full trainings. Zero is 100.
	Trainings float64
	// Parts are the parts of the budget, in increasing order, at which the regret is taken. Nil
	// is 0.1, 0.25, 0.5 and 1.
	Parts []float64
}

// An Outcome is what a search came to.
type Outcome struct {
	// Regret is, for each part, how many points the final accuracy of the trial with the best
	// newest report is below the best one. Without a report it is the best one above chance.
	Regret []float64
	// Trials is how many were begun, Full how many of them trained to their last step, Steps
	// how many steps were trained.
	Trials, Full, Steps int
	// Clock is the simulated time at the end, Busy the part of it for which the workers
	// trained.
	Clock time.Duration
	Busy  float64
}

// A training is one trial of a simulation.
type training struct {
	params tune.Params
	seed   uint64
	// step is the newest step that it has reached.
	step int
	// level is that of the run, or 0.
	level int
	// steps is the step at which it is trained to its end.
	steps int
	// second is the length of a step in seconds.
	second float64
	// value is its newest report; NaN: it has none.
	value float64
	// ended says that it will not continue.
	ended bool
}

// An arrival is a report to come.
type arrival struct {
	at float64
	// order decides between trainings that end together.
	order int
	trial int
}

// arrivals is a heap of reports, the earliest first.
type arrivals []arrival

func (a arrivals) Len() int { return len(a) }
func (a arrivals) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(a[i].at, a[j].at), cmp.Compare(a[i].order, a[j].order)) < 0
}
func (a arrivals) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *arrivals) Push(x any)   { *a = append(*a, x.(arrival)) }
func (a *arrivals) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}

// A simulation is a search under way.
type simulation struct {
	problem *Problem
	search  Search
	cfg     Config
	trials  []*training
	running arrivals
	order   int
	// now is the simulated time, in seconds.
	now float64
	// spent is how long trials have trained, in seconds.
	spent float64
	// done says that there are no more trials to start.
	done    bool
	outcome Outcome
}

// Simulate runs a search until its trials have trained for the budget, or there are no more.
func Simulate(p Problem, s Search, cfg Config) (Outcome, error) {
	cfg.Workers = max(cfg.Workers, 1)
	if cfg.Trainings <= 0 {
		cfg.Trainings = 100
	}
	if cfg.Parts == nil {
		cfg.Parts = []float64{0.1, 0.25, 0.5, 1}
	}
	if !slices.IsSorted(cfg.Parts) {
		return Outcome{}, fmt.Errorf("curvetest: Parts %v: want them in increasing order", cfg.Parts)
	}
	sim := &simulation{problem: &p, search: s, cfg: cfg}
	if err := sim.run(); err != nil {
		return sim.outcome, fmt.Errorf("curvetest: %s, seed %d: %w", p.Name, cfg.Seed, err)
	}
	return sim.outcome, nil
}

// run goes from event to event until the time is over.
func (s *simulation) run() error {
	budget := s.cfg.Trainings * s.problem.FullTraining()
	for {
		for len(s.running) < s.cfg.Workers && !s.done {
			if more, err := s.start(); err != nil {
				return err
			} else if !more {
				break
			}
		}
		if len(s.running) == 0 {
			break
		}
		if err := s.arrive(); err != nil {
			return err
		}
		for len(s.outcome.Regret) < len(s.cfg.Parts) && s.spent >= s.cfg.Parts[len(s.outcome.Regret)]*budget-1e-6 {
			s.outcome.Regret = append(s.outcome.Regret, s.regret())
		}
		if s.spent >= budget-1e-6 {
			break
		}
	}
	// The search has ended by itself: its regret no longer changes.
	for len(s.outcome.Regret) < len(s.cfg.Parts) {
		s.outcome.Regret = append(s.outcome.Regret, s.regret())
	}
	s.outcome.Trials = len(s.trials)
	s.outcome.Clock = seconds(s.now)
	if s.now > 0 {
		s.outcome.Busy = s.spent / (s.now * float64(s.cfg.Workers))
	}
	return nil
}

// seconds is a number of seconds as a Duration.
func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// start gives a free worker something to do, and says whether there was something.
func (s *simulation) start() (bool, error) {
	n, params, err := s.search.Next(seconds(s.now))
	switch {
	case errors.Is(err, tune.ErrWait):
		if len(s.running) == 0 {
			return false, fmt.Errorf("after %d trials the search waits, and nothing runs", len(s.trials))
		}
		return false, nil
	case errors.Is(err, tune.ErrDone):
		s.done = true
		return false, nil
	case err != nil:
		return false, err
	case n == len(s.trials):
		s.trials = append(s.trials, &training{params: params, seed: mix(s.cfg.Seed, uint64(n)), steps: s.problem.Steps(params),
			second: s.problem.Seconds(params), value: math.NaN()})
	case n < 0 || n > len(s.trials):
		return false, fmt.Errorf("the search starts trial %d, want 0 to %d", n, len(s.trials))
	}
	if slices.ContainsFunc(s.running, func(a arrival) bool { return a.trial == n }) {
		return false, fmt.Errorf("the search starts trial %d, which runs", n)
	}
	if l, ok := s.search.(Leveled); ok {
		s.trials[n].level = min(l.Level(params), s.trials[n].steps)
	}
	switch t := s.trials[n]; {
	case t.ended:
		return false, fmt.Errorf("the search starts trial %d, which has ended", n)
	case t.step >= t.steps:
		t.ended = true
		return true, s.search.End(seconds(s.now), n)
	}
	s.next(n)
	return true, nil
}

// next lets a trial train for one more step, or for those of its level.
func (s *simulation) next(trial int) {
	s.order++
	t := s.trials[trial]
	heap.Push(&s.running, arrival{s.now + t.second*float64(max(t.level, 1)), s.order, trial})
}

// arrive takes the next report.
func (s *simulation) arrive() error {
	a := heap.Pop(&s.running).(arrival)
	t := s.trials[a.trial]
	s.now = a.at
	steps := 1
	if t.level > 0 {
		t.step, steps = 0, t.level
	}
	s.spent += t.second * float64(steps)
	s.outcome.Steps += steps
	t.step += steps
	t.value = s.problem.Value(t.params, t.step, t.seed)
	last := t.step >= t.steps
	if last {
		s.outcome.Full++
	}
	action, err := s.search.Report(seconds(s.now), a.trial, t.step, t.value, last)
	if err != nil {
		return err
	}
	switch {
	case action == tune.Pause && !math.IsNaN(t.value):
	case action == tune.Continue && !last && !math.IsNaN(t.value):
		s.next(a.trial)
	default:
		t.ended = true
	}
	return nil
}

// regret is that of the trial with the best newest report, the first one of equals.
func (s *simulation) regret() float64 {
	var best *training
	for _, t := range s.trials {
		if t.level > 0 && t.step < t.steps {
			continue
		}
		if !math.IsNaN(t.value) && (best == nil || t.value > best.value) {
			best = t
		}
	}
	if best == nil {
		return s.problem.Best - s.problem.Chance
	}
	return s.problem.Best - s.problem.Final(best.params)
}

// mix is a seed made of two numbers.
func mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b + 0x7f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
