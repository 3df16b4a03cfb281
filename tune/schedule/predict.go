package schedule

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/internal/forecast"
)

// Predict stops trials that will hardly end among the best.
//
// Ends are predicted from a trial's parameters, by a Gaussian process over those of all finished trials, and from its own values, by
// what trials of this study that had such values came to. The first trials train to their end: nothing is known before. From then on a
// trial is stopped when
//
//	P(it ends among the Best) < Probability,
//
// or less, when also new trials have hardly a chance: a trial is not stopped for what a new one would not do better.
type Predict struct {
	// MaxStep is the step at which a trial is complete. Zero is no limit: trials end by themselves.
	MaxStep int
	// Best is how many of the best trials the search is for. Zero is 1.
	Best int
	// Probability below which a trial is stopped. Zero is 0.1.
	Probability float64
	// MinReports is how many reports a trial has at least. Zero is 3; in a study with a Fidelity, where a report is a training
	// of its own, it is 1.
	MinReports int
	// MinTrials is how many trials have ended by themselves before one is stopped. Zero is 4.
	MinTrials int

	done    []int // finished trials that count, as they ended
	curves  map[int]forecast.Curve
	cache   forecast.Cache
	model   *forecast.Model // nil: to be made anew
	bests   []ended
	chances []float64 // of the trials that were looked at first last, by their parameters alone
	seen    map[int]bool
}

// An ended is a trial that trained to its end.
type ended struct {
	trial int
	score float64
}

const (
	// predictChances is over how many of the newest trials the chance of a new one is averaged.
	predictChances = 10
	// predictShare is the part of a new trial's chance below which a trial is stopped.
	predictShare = 0.5
	// predictEvery is the factor between steps at which a trial is looked at.
	predictEvery = 1.15
)

// Validate says what is wrong with the fields.
func (p *Predict) Validate() error {
	switch {
	case p.MaxStep < 0 || p.Best < 0 || p.MinReports < 0 || p.MinTrials < 0:
		return fmt.Errorf("schedule: Predict: MaxStep %d, Best %d, MinReports %d, MinTrials %d: want 0 or more", p.MaxStep, p.Best, p.MinReports, p.MinTrials)
	case !(p.Probability >= 0 && p.Probability < 1):
		return fmt.Errorf("schedule: Predict: Probability is %v: want 0 or more and less than 1", p.Probability)
	case p.MinTrials > 0 && p.MinTrials < max(p.Best, 3):
		return errors.New("schedule: Predict: MinTrials is below 3 or below Best: fewer trials say nothing")
	}
	return nil
}

func (p *Predict) best() int { return max(p.Best, 1) }

func (p *Predict) minTrials() int {
	if p.MinTrials > 0 {
		return p.MinTrials
	}
	return max(4, p.best())
}

func (p *Predict) minReports(v tune.View) int {
	switch {
	case p.MinReports > 0:
		return p.MinReports
	case v.Fidelity() != nil:
		return 1
	}
	return 3
}

func (p *Predict) probability() float64 {
	if p.Probability > 0 {
		return p.Probability
	}
	return 0.1
}

// Started implements tune.Scheduler: a trial that starts again has not ended.
func (p *Predict) Started(_ tune.View, trial int) {
	if i := slices.Index(p.done, trial); i >= 0 {
		p.done = slices.Delete(p.done, i, i+1)
		delete(p.curves, trial)
		p.model = nil
	}
}

// Ended implements tune.Scheduler.
func (p *Predict) Ended(v tune.View, trial int) {
	t := v.Trial(trial)
	if t.State != tune.Completed && t.State != tune.Pruned || len(t.Reports) == 0 {
		return
	}
	c := p.curve(v, t)
	if c.Ended = t.State == tune.Completed; c.Ended {
		c.Final = v.Score(v.Result(t))
	}
	if p.curves == nil {
		p.curves = make(map[int]forecast.Curve)
	}
	p.done, p.curves[trial], p.model = append(p.done, trial), c, nil
}

// Next implements tune.Scheduler.
func (p *Predict) Next(tune.View) tune.Pick { return tune.Pick{} }

func (p *Predict) curve(v tune.View, t *tune.Trial) forecast.Curve {
	c := forecast.Curve{X: forecast.Inputs(v.Space(), t.Params)}
	c.Report(v, t)
	return c
}

// fit makes the model anew if a trial has ended.
func (p *Predict) fit() *forecast.Model {
	if p.model != nil {
		return p.model
	}
	var all []forecast.Curve
	p.bests = p.bests[:0]
	for _, n := range p.done {
		c := p.curves[n]
		all = append(all, c)
		if c.Ended {
			p.bests = append(p.bests, ended{n, c.Final})
		}
	}
	slices.SortStableFunc(p.bests, func(a, b ended) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return a.trial - b.trial
	})
	p.model = forecast.Fit(all, &p.cache)
	return p.model
}

// Reported implements tune.Scheduler.
func (p *Predict) Reported(v tune.View, trial int, _ *rand.Rand) tune.Decision {
	if err := p.Validate(); err != nil {
		return invalid(err)
	}
	t := v.Trial(trial)
	last, ok := t.Last()
	switch {
	case !ok:
		return tune.Go()
	case p.MaxStep > 0 && last.Step >= p.MaxStep:
		return explain(tune.Complete, "predict: last step", last.Value)
	case len(t.Reports) < p.minReports(v) || len(p.done) < p.minTrials() || !p.due(t, last.Step):
		return tune.Go()
	}
	model := p.fit()
	if len(p.bests) < p.minTrials() {
		return tune.Go()
	}
	c := p.curve(v, t)
	prior, end := model.Prior(c.X), model.End(&c)
	rival := p.bests[p.best()-1]
	cutoff := model.Unit(rival.score)
	if !p.seen[trial] {
		if p.seen == nil {
			p.seen = make(map[int]bool)
		}
		p.seen[trial] = true
		if p.chances = append(p.chances, prior.Above(cutoff)); len(p.chances) > predictChances {
			p.chances = p.chances[1:]
		}
	}
	bound, sum := p.probability(), 0.0
	for _, x := range p.chances {
		sum += x
	}
	bound = min(bound, predictShare*sum/float64(len(p.chances)))
	chance := end.Above(cutoff)
	d := explain(tune.Continue, "predict", last.Value)
	d.Forecast = p.foretold(v, end, last.Step, chance, bound)
	d.Cutoff = v.Score(rival.score)
	for _, b := range p.bests[:min(p.best(), maxCompetitors)] {
		d.Competitors = append(d.Competitors, b.trial)
	}
	if chance < bound {
		d.Action = tune.Stop
	}
	return d
}

// due says whether a trial is looked at: at steps that grow by a factor.
func (p *Predict) due(t *tune.Trial, step int) bool {
	before := 0
	for i := len(t.Reports) - 1; i >= 0 && before == 0; i-- {
		if r := t.Reports[i]; r.Step < step && r.Action != tune.Unjudged {
			before = r.Step
		}
	}
	level := func(s int) int { return int(math.Log(float64(s))/math.Log(predictEvery) + 1e-9) }
	return before < 1 || level(step) > level(before)
}
