package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/internal/forecast"
)

// Predict stops trials that will hardly end as well as the best.
//
// Ends are predicted, without the noise of a single training, from a trial's parameters, by a
// Gaussian process over those of all finished trials, and from its own values, by what trials of
// this study that had such values came to. The first trials train to their end: nothing is known
// before. From then on a trial is stopped when
//
//	P(it ends as good as the Best) < min(Probability, 0.3 · what that was by its parameters alone), or < 0.0001.
//
// So a trial is stopped for what it shows. For where it was tried alone it hardly ever is: the
// suggester knew that, and wanted to know more. As good means that less than the noise of one
// training is missing. The Best are of the trials that keep all constraints. Where trials report
// once, none is stopped: by then it has trained to its end.
type Predict struct {
	// MaxStep is the step at which a trial is complete. Zero is no limit: trials end by
	// themselves.
	MaxStep int
	// MinStep is the step before which no trial is stopped. Zero is a tenth of MaxStep, or of
	// the longest trial where that is zero; in a study with a Fidelity, where a report is a
	// training of its own, it is 1.
	MinStep int
	// Best is how many of the best trials the search is for. Zero is a tenth of those that have
	// trained to their end and keep all constraints, and at least 1.
	Best int
	// Probability is the chance from which on no trial is stopped. Zero is 0.1.
	Probability float64
	// MinTrials is how many trials, of those that keep all constraints, have ended by
	// themselves before one is stopped. Zero is 10, or Best if that is more.
	MinTrials int

	// done are the finished trials that count, in the order of their ends.
	done   []int
	curves map[int]forecast.Curve
	// counts has the trials that trained to their end and keep all constraints.
	counts map[int]bool
	cache  forecast.Cache
	// model is nil if it is to be made anew.
	model *forecast.Model
	// bests are the trials that trained to their end and keep all constraints, the best first.
	bests []ended
	// limit is the end of the last of the best trials, in the model's unit.
	limit float64
	// longest is the last step of the longest trial that trained to its end.
	longest int
	// stepped says that a trial that trained to its end has reported more than once.
	stepped bool
}

// An ended is a trial that trained to its end, which has been freed of noise and is in the model's
// unit.
type ended struct {
	trial int
	end   float64
}

const (
	// predictShare is the part of the chance that a trial had by its parameters alone below
	// which it is stopped.
	predictShare = 0.3
	// predictNever is the chance below which a trial is stopped however little it shows.
	predictNever = 1e-4
	// predictEvery is the factor between steps at which a trial is looked at.
	predictEvery = 1.15
	// predictBest is the part of the trials that trained to their end which count as the best.
	predictBest = 0.1
)

// Validate says what is wrong with the fields.
func (p *Predict) Validate() error {
	switch {
	case p.MaxStep < 0 || p.MinStep < 0 || p.Best < 0 || p.MinTrials < 0:
		return fmt.Errorf("schedule: Predict: MaxStep %d, MinStep %d, Best %d, MinTrials %d: want 0 or more", p.MaxStep, p.MinStep, p.Best, p.MinTrials)
	case p.MaxStep > 0 && p.MinStep > p.MaxStep:
		return fmt.Errorf("schedule: Predict: MinStep is %d, and MaxStep %d: want at most that", p.MinStep, p.MaxStep)
	case !(p.Probability >= 0 && p.Probability < 1):
		return fmt.Errorf("schedule: Predict: Probability is %v: want 0 or more and less than 1", p.Probability)
	case p.MinTrials > 0 && p.MinTrials < max(p.Best, 3):
		return errors.New("schedule: Predict: MinTrials is below 3 or below Best: fewer trials say nothing")
	}
	return nil
}

// best is how many of p.bests are the best.
func (p *Predict) best() int { return cmp.Or(p.Best, max(1, int(predictBest*float64(len(p.bests))))) }

// minTrials is MinTrials, or its default.
func (p *Predict) minTrials() int { return cmp.Or(p.MinTrials, max(10, p.Best)) }

// minStep is the step before which no trial is stopped.
func (p *Predict) minStep(v tune.View) int {
	switch {
	case p.MinStep > 0:
		return p.MinStep
	case v.Fidelity() != nil:
		return 1
	}
	return (cmp.Or(p.MaxStep, p.longest) + 9) / 10
}

// probability is the chance below which a trial is stopped.
func (p *Predict) probability() float64 { return cmp.Or(p.Probability, 0.1) }

// Started implements tune.Scheduler: a trial that starts again has not ended.
func (p *Predict) Started(_ tune.View, trial int) {
	if i := slices.Index(p.done, trial); i >= 0 {
		p.done = slices.Delete(p.done, i, i+1)
		delete(p.curves, trial)
		delete(p.counts, trial)
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
	if p.curves == nil {
		p.curves, p.counts = make(map[int]forecast.Curve), make(map[int]bool)
	}
	if t.State == tune.Completed {
		c.Ended = true
		p.longest = max(p.longest, c.Last())
		p.stepped = p.stepped || len(t.Reports) > 1
		c.Final = v.Score(v.Result(t))
		p.counts[trial] = !(v.Violation(t) > 0)
	}
	p.done, p.curves[trial], p.model = append(p.done, trial), c, nil
}

// Next implements tune.Scheduler.
func (p *Predict) Next(tune.View) tune.TrialChoice { return tune.TrialChoice{} }

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
	all := make([]forecast.Curve, len(p.done))
	for i, n := range p.done {
		all[i] = p.curves[n]
	}
	p.model = forecast.Fit(all, &p.cache)
	p.bests = p.bests[:0]
	for i, end := range p.model.Ends() {
		if p.counts[p.done[i]] {
			p.bests = append(p.bests, ended{p.done[i], end})
		}
	}
	slices.SortStableFunc(p.bests, func(a, b ended) int { return cmp.Or(cmp.Compare(b.end, a.end), cmp.Compare(a.trial, b.trial)) })
	if len(p.bests) > 0 {
		p.limit = p.bests[min(p.best(), len(p.bests))-1].end
	}
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
	case p.MaxStep == 0 && last.Step >= p.longest:
		// The trial has gone as far as any: nothing is left to save.
		return tune.Go()
	case !p.stepped:
		// Where no trial has reported twice, this is the trial's only report.
		return tune.Go()
	case len(p.done) < p.minTrials() || last.Step < p.minStep(v) || !p.due(t, last.Step):
		return tune.Go()
	}
	model := p.fit()
	if len(p.bests) < p.minTrials() {
		return tune.Go()
	}
	c := p.curve(v, t)
	end := model.End(&c)
	// Ends that differ by less than the noise of a training are as good.
	cutoff := p.limit - model.Noise()
	before, chance := model.Prior(c.X).Above(cutoff), end.Above(cutoff)
	bound := min(p.probability(), max(predictShare*before, predictNever))
	d := explain(tune.Continue, "predict", last.Value)
	d.Forecast = p.foretold(v, end, last.Step, chance, bound)
	d.Cutoff = d.Forecast.Target
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
