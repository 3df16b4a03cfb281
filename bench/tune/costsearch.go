package main

import (
	"container/heap"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"github.com/paragon-train/paragon/tune"
)

// A costSearch is one search on a simulated clock.
type costSearch struct {
	problem  pricedProblem
	parallel int
	budget   time.Duration
	study    *tune.Study
	noise    *rand.Rand

	// begin is when the search began, and now the time since.
	begin time.Time
	now   time.Duration

	running endings

	// done says that the study proposes no more trials.
	done bool

	// best is the value of the trial that showed the least, which reported is: what a trial shows
	// has noise.
	best, reported float64

	// regrets are those at costParts of the time that have passed.
	regrets []float64

	// ended counts the trials that ended.
	ended int
}

// runCostSearch returns the regrets at costParts of the time, and the number of trials that ended in
// it.
func runCostSearch(p pricedProblem, suggester tune.Suggester, parallel int, s costSettings, seed uint64) ([]float64, int, error) {
	mean, err := p.meanMinutes()
	if err != nil {
		return nil, 0, err
	}
	c := &costSearch{
		problem: p, parallel: parallel, noise: rand.New(rand.NewPCG(seed, 13)), best: math.NaN(), reported: math.NaN(),
		budget: time.Duration(mean * float64(s.trials) / float64(parallel) * float64(time.Minute)),
	}
	cfg := tune.Config{
		Space: p.Space, Metric: "value", Mode: tune.Min, Samples: -1, Seed: seed, Parallel: parallel, Suggester: suggester,
		Now: func() time.Time { return c.begin.Add(c.now) }, Logger: slog.New(slog.DiscardHandler),
	}
	if s.deadline {
		cfg.Deadline = c.begin.Add(c.budget)
	}
	if c.study, err = tune.NewStudy(cfg); err != nil {
		return nil, 0, err
	}
	defer c.study.Close()
	for {
		if err := c.ask(); err != nil {
			return nil, 0, err
		}
		if c.takeRegrets(); len(c.regrets) == len(costParts) {
			return c.regrets, c.ended, nil
		}
		if err := c.endNext(); err != nil {
			return nil, 0, err
		}
	}
}

// meanMinutes is the mean time of random trials.
func (p *pricedProblem) meanMinutes() (mean float64, err error) {
	rng := rand.New(rand.NewPCG(11, 12))
	const draws = 300
	for range draws {
		x, err := p.Space.Fill(tune.Params{}, func(q tune.Param, _ tune.Params) (any, error) { return q.FromUnit(rng.Float64()), nil })
		if err != nil {
			return 0, err
		}
		mean += p.minutes(x) / draws
	}
	return mean, nil
}

// ask begins as many trials as may run, or as the study has now.
func (c *costSearch) ask() error {
	for len(c.running) < c.parallel && !c.done {
		t, err := c.study.TryAsk()
		if errors.Is(err, tune.ErrDone) || errors.Is(err, tune.ErrWait) {
			c.done = errors.Is(err, tune.ErrDone)
			return nil
		}
		if err != nil {
			return err
		}
		heap.Push(&c.running, ending{c.now + time.Duration(c.problem.minutes(t.Params)*float64(time.Minute)), t})
	}
	return nil
}

// takeRegrets takes the regrets of the parts of the time that end before the next trial does.
func (c *costSearch) takeRegrets() {
	next := time.Duration(math.MaxInt64)
	if len(c.running) > 0 {
		next = c.running[0].at
	}
	for len(c.regrets) < len(costParts) && float64(next) > costParts[len(c.regrets)]*float64(c.budget) {
		c.regrets = append(c.regrets, c.best-c.problem.Min)
	}
}

// endNext lets time pass until the next trial ends.
func (c *costSearch) endNext() error {
	e := heap.Pop(&c.running).(ending)
	c.now = e.at
	value := c.problem.Value(e.trial.Params)
	shown := value + c.problem.Noise*c.noise.NormFloat64()
	if _, err := c.study.Tell(e.trial.Number, 1, map[string]float64{"value": shown}); err != nil {
		return err
	}
	if err := c.study.Finish(e.trial.Number, nil); err != nil {
		return err
	}
	c.ended++
	if !(c.reported <= shown) {
		c.best, c.reported = value, shown
	}
	return nil
}
