package tune

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// RunBest trains once more with the best parameters, with a new seed and without scheduler and
// pruners, and returns that trial. If the study has a folder, it uses the folder "best" in it;
// a run that was interrupted there resumes.
func (r *Result) RunBest(ctx context.Context) (Trial, error) {
	if err := r.noBest(); err != nil {
		return Trial{Number: -1, Best: -1}, err
	}
	if r.best.Number < 0 {
		return Trial{Number: -1, Best: -1}, r.nothing()
	}
	res, err := r.rerun(ctx, "best", []Params{r.best.Params}, 1)
	if res == nil || len(res.trials) == 0 {
		return Trial{Number: -1, Best: -1}, err
	}
	return res.trials[0], err
}

// noBest is an error if there is no best trial because there are several objectives.
func (r *Result) noBest() error {
	if r.cfg.several() {
		return fmt.Errorf("tune: study %s has %d objectives, so no trial is the best: choose one of Result.Front, and run its Params", r.Name, len(r.cfg.Objectives))
	}
	return nil
}

// rerun runs each set of parameters so many times, in a new study.
func (r *Result) rerun(ctx context.Context, what string, settings []Params, times int) (*Result, error) {
	if r.cfg.Runner == nil {
		return nil, fmt.Errorf("tune: study %s: this result has no runner to train with: use the result of tune.Run, or set Config.Runner", r.Name)
	}
	c := r.cfg
	c.program = r.cfg.programName()
	c.Name, c.Metric, c.Mode = r.Name+"-"+what, r.Metric, r.Mode
	c.Seed = mix(r.cfg.Seed, streamConfirm, uint64(len(what)))
	c.Suggester, c.Scheduler, c.DefaultScheduler, c.Pruners, c.Observers, c.Constraints = nil, nil, nil, nil, nil, nil
	c.Timeout, c.MaxFailed, c.DefaultFirst = 0, 0, false
	c.Space = fixedSpace(r.cfg.Space)
	// It is trained again at the highest level alone.
	if f := c.Fidelity; f != nil {
		c.Fidelity = &Fidelity{Parameter: f.Parameter, Low: f.High, High: f.High}
	}
	c.Points = nil
	// The runs go round by round, so that an interrupted search has some of each.
	for range times {
		for _, p := range settings {
			point := Point{}
			for name, v := range r.cfg.off(p).All() {
				point[name] = v
			}
			c.Points = append(c.Points, point)
		}
	}
	c.Samples = len(c.Points)
	if c.Dir != "" {
		c.Dir, c.Resume = filepath.Join(c.Dir, what), ResumeAuto
	}
	return Run(ctx, nil, c)
}

// fixedSpace is the space with axes of the grid as choices, so that a point that has them is
// one trial.
func fixedSpace(s Space) Space {
	fixed := make(Space, len(s))
	for i, p := range s {
		if p.Kind == KindGrid {
			p.Kind = KindChoice
		}
		fixed[i] = p
	}
	return fixed
}

// A RepeatedTrial is one of the best trials of a search, run again.
type RepeatedTrial struct {
	// Trial is its number in the search, Found its result there. Found is the best of many
	// noisy results, so it is biased upwards.
	Trial  int
	Params Params
	Found  float64
	// Values are the results of the new runs.
	Values []float64
	// Mean of Values, and its 95 % confidence interval (Student's t).
	Mean, Low, High float64
	// Best is the probability that its true mean is the best of all contenders.
	Best float64
}

// Confirm runs each of the k best trials again, so many times (at least twice), with new seeds and
// without scheduler and pruners, and estimates the probability that each is the best.
// RepeatedTrials are in the order of the search. If the study has a folder, it uses the folder
// "confirm" in it, and resumes there after an interruption.
//
// The true means are taken as independent. Each is distributed as the mean of its n runs plus their
// standard error times Student's t with n-1 degrees of freedom. Probabilities are shares of 20,000
// draws.
func (r *Result) Confirm(ctx context.Context, k, times int) ([]RepeatedTrial, error) {
	if err := r.noBest(); err != nil {
		return nil, err
	}
	top := r.Top(k)
	if len(top) == 0 {
		return nil, r.nothing()
	}
	if times < 2 {
		return nil, fmt.Errorf("tune: confirm %d trials of study %s with %d runs each: want at least 2", k, r.Name, times)
	}
	settings := make([]Params, len(top))
	for i, t := range top {
		settings[i] = t.Params
	}
	res, err := r.rerun(ctx, "confirm", settings, times)
	if res == nil {
		return nil, err
	}
	all := make([]RepeatedTrial, len(top))
	for i, t := range top {
		all[i] = RepeatedTrial{Trial: t.Number, Params: t.Params, Found: r.value(&t)}
	}
	for i := range res.trials {
		if v := res.value(&res.trials[i]); r.Mode.Score(v) > math.Inf(-1) {
			c := &all[i%len(top)]
			c.Values = append(c.Values, v)
		}
	}
	for i := range all {
		c := &all[i]
		if len(c.Values) < 2 {
			err = errors.Join(err, fmt.Errorf("tune: confirm trial %d: only %d of %d runs have a result", c.Trial, len(c.Values), times))
		}
		c.interval()
	}
	chances(all, r.Mode, newRand(r.cfg.Seed, streamConfirm))
	return all, err
}

// interval sets Mean, Low and High.
func (c *RepeatedTrial) interval() {
	c.Mean, c.Low, c.High = math.NaN(), math.Inf(-1), math.Inf(1)
	if len(c.Values) == 0 {
		return
	}
	mean, deviation := stat.MeanStdDev(c.Values, nil)
	c.Mean = mean
	if n := float64(len(c.Values)); n >= 2 {
		t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975)
		c.Low, c.High = mean-t*deviation/math.Sqrt(n), mean+t*deviation/math.Sqrt(n)
	}
}

// chances sets Best of all contenders with two runs or more.
func chances(all []RepeatedTrial, m Mode, rng *rand.Rand) {
	const draws = 20_000
	type posterior struct {
		mean, deviation float64
		t               distuv.StudentsT
	}
	means := make([]posterior, len(all))
	for i, c := range all {
		if n := float64(len(c.Values)); n >= 2 {
			_, deviation := stat.MeanStdDev(c.Values, nil)
			means[i] = posterior{c.Mean, deviation / math.Sqrt(n), distuv.StudentsT{Sigma: 1, Nu: n - 1, Src: rng}}
		}
	}
	wins := make([]int, len(all))
	for range draws {
		best, score := -1, math.Inf(-1)
		for i, x := range means {
			if x.t.Nu > 0 {
				if s := m.Score(x.mean + x.deviation*x.t.Rand()); best < 0 || s > score {
					best, score = i, s
				}
			}
		}
		if best >= 0 {
			wins[best]++
		}
	}
	for i := range all {
		all[i].Best = float64(wins[i]) / draws
	}
}
