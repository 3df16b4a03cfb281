package schedule

import (
	"math"
	"strconv"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/internal/forecast"
)

// band is how many standard deviations around the mean a normal value is with a probability of 80
// %.
const band = 1.2815515655446004

// foretold is a prediction by the model as a report has it. At least one trial has ended. at is the
// step that the trial has reached.
func (p *Predict) foretold(v tune.View, end forecast.Normal, at int, chance, bound float64) *tune.Forecast {
	// A result is the function's value and the noise of one training.
	end.Deviation = math.Hypot(end.Deviation, p.model.Noise())
	low, high := v.Score(p.model.Score(end.Mean-band*end.Deviation)), v.Score(p.model.Score(end.Mean+band*end.Deviation))
	rival := p.bests[min(p.best(), len(p.bests))-1]
	return &tune.Forecast{
		Step: p.lastStep(at), Mean: digits(v.Score(p.model.Score(end.Mean))), Low: digits(min(low, high)), High: digits(max(low, high)),
		Chance: digits(chance), Bound: digits(bound), Best: p.best(), Rival: rival.trial, Target: digits(v.Score(p.model.Score(p.limit))),
	}
}

// digits rounds to six digits: more say nothing, and would differ from one kind of processor to the
// next, so that a search could not be resumed on another.
func digits(x float64) float64 {
	y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	return y
}

// lastStep is the step at which trials end: MaxStep, or the last one of those that ended by
// themselves.
func (p *Predict) lastStep(at int) int {
	if p.MaxStep > 0 {
		return p.MaxStep
	}
	return max(at, p.longest)
}
