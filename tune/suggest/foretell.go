package suggest

import (
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/internal/forecast"
)

// A foretelling is what is known where trials report more than one step: those that were stopped
// early and those that run are evidence, at the steps that they reached, of how they would end.
type foretelling struct {
	g *GP
	m *model
	// recs are the records, of which all that are finished count as complete, with the ends
	// that are expected as their scores.
	recs []record
	// done are those of recs that have ended, in the order of their ends.
	done  []*record
	model *forecast.Model
	// known is the number of finished trials, of which one that was stopped early counts by
	// what it tells.
	known float64
}

// foretell returns nil if there is nothing to tell, or too many parameters to tell by.
func (g *GP) foretell(m *model, recs []record) *foretelling {
	f := &foretelling{g: g, m: m, recs: slices.Clone(recs)}
	f.done = byTheirEnd(f.recs)
	if len(f.done) < 2 || len(m.dims) == 0 {
		return nil
	}
	f.model = forecast.Fit(curvesOf(f.done), &g.foretold)
	if f.model.Process(1) == nil {
		return nil
	}
	for _, w := range f.model.Weights() {
		f.known += w
	}
	for i, end := range f.model.Ends() {
		f.done[i].state, f.done[i].score = recordComplete, end
	}
	return f
}

// curvesOf are the curves of finished records. One that violates constraints ends below all that do
// not.
func curvesOf(done []*record) []forecast.Curve {
	scores := make([]float64, len(done))
	curves := make([]forecast.Curve, len(done))
	for i, r := range done {
		scores[i], curves[i] = r.score, r.curve
	}
	penalise(done, scores)
	for i, r := range done {
		if r.violation > 0 {
			curves[i].Ended, curves[i].Final = true, scores[i]
		}
	}
	return curves
}

// suggest proposes as GP does.
func (f *foretelling) suggest(v tune.View, number int, rng *rand.Rand) (tune.Params, error) {
	m, g, fixed := f.m, f.g, v.Fixed(number)
	given := m.given(fixed)
	if len(f.done) < g.startup() || m.size(given) == 1 {
		return m.params(m.startPoint(f.recs, given, &g.matrices, v.Seed(), number, rng), fixed)
	}
	part, within := m.branches(f.recs, given, branchExplore, rng)
	x := m.fresh(f.recs, part, rng, func() []float64 { return f.propose(v, part, rng) })
	// Every setting of the branch has been tried.
	if len(within) < len(f.recs) && has(within, hash(m.settle(x))) {
		x = m.fresh(f.recs, given, rng, func() []float64 { return f.propose(v, given, rng) })
	}
	return m.params(x, fixed)
}

// gpFantasies is how many sets of values are drawn for running trials.
const gpFantasies = 8

// propose returns values for the model's dims.
func (f *foretelling) propose(v tune.View, given []float64, rng *rand.Rand) []float64 {
	var running []*record
	for i := range f.recs {
		if f.recs[i].state == recordRunning {
			running = append(running, &f.recs[i])
		}
	}
	running = running[max(0, len(running)-64):]
	process := f.model.Process(1)
	if len(running) > 0 {
		process = f.model.Process(gpFantasies)
	}
	for _, r := range running {
		if told, ok := f.model.Likelihood(&r.curve); ok {
			process.Add(r.curve.X, told.Deviation, told.Mean)
		}
	}
	for _, r := range running {
		means, sd := process.Predictor().At(r.curve.X)
		for i := range means {
			means[i] += sd * rng.NormFloat64()
		}
		process.Add(r.curve.X, 0, means...)
	}
	bests := process.Incumbents()
	for i := range bests {
		bests[i] = -bests[i]
	}
	predictor := process.Predictor()
	at := func(x []float64) ([]float64, float64) {
		means, sd := predictor.At(x)
		for i := range means {
			means[i] = -means[i]
		}
		return means, sd
	}
	return f.g.search(&hunt{m: f.m, bests: bests, at: at, price: f.g.weigh(v, f.m, f.done), given: given, rng: rng}, f.done)
}

// foretold chooses between GP and TPE as Suggest does.
func (a *Auto) foretold(f *foretelling, v tune.View, number int, rng *rand.Rand) (tune.Params, error) {
	noisy := len(f.done) >= autoNoisy && f.model.NoiseShare() > autoNoise
	if f.known <= autoTrials && (!noisy || a.Per != "") {
		return f.suggest(v, number, rng)
	}
	return a.tpe.suggest(f.m, f.recs, v, number, rng)
}
