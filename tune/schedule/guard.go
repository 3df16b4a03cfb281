package schedule

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
)

// A Guard keeps slow starters in ASHA: trials whose first values are poor, but whose curve may end
// well.
//
// A trial that a rung would stop first gets MinReports reports, since one or two values make no
// curve. From then on its curve is extrapolated to the last step, with its uncertainty, and so are
// those of the other trials. The trial continues while
//
//	P(its final value > the cutoff's) > Probability,
//
// where the cutoff's final value is the one above which ⌊n/eta⌋ of the n trials at the rung are
// expected to end; trials without a curve count as below. This is checked at every further report,
// until the trial passes a rung by the rung's own rule. So most stopped trials cost MinReports
// reports instead of one.
type Guard struct {
	// Probability below which a trial is stopped. Zero is 0.1.
	Probability float64
	// MinReports is how many reports a curve needs. Zero is 4.
	MinReports int
	// RandomShare is the share of trials that continue to the next rung although their curve is
	// poor, for curves that improve late. Zero is none.
	RandomShare float64

	forecasts map[int]cachedForecast
}

// maxCurves bounds, within a factor of two, the curves that one is compared with.
const maxCurves = 256

// A cachedForecast is the forecast of a trial with so many reports.
type cachedForecast struct {
	reports  int
	f        outlook
	expected float64
}

func (g *Guard) minReports() int {
	if g.MinReports > 0 {
		return g.MinReports
	}
	return 4
}

func (g *Guard) probability() float64 {
	if g.Probability > 0 {
		return g.Probability
	}
	return 0.1
}

// forecast of a trial's score at the horizon; false if its curve is too short. One that is not to
// be fresh may be of a curve that was a fifth shorter.
func (g *Guard) forecast(v tune.View, trial int, horizon float64, fresh bool) (cachedForecast, bool) {
	t := v.Trial(trial)
	n := len(t.Reports)
	if n < g.minReports() {
		return cachedForecast{}, false
	}
	if c, ok := g.forecasts[trial]; ok && (c.reports == n || n < c.reports+c.reports/4 && !fresh) {
		return c, true
	}
	var c curve
	for _, r := range t.Reports {
		s := v.Score(r.Value)
		if r.Action == tune.Unjudged || math.IsInf(s, 0) {
			continue
		}
		c.step, c.score = append(c.step, float64(r.Step)), append(c.score, s)
	}
	if len(c.step) < g.minReports() {
		return cachedForecast{}, false
	}
	f := extrapolate(c, horizon)
	if g.forecasts == nil {
		g.forecasts = make(map[int]cachedForecast)
	}
	made := cachedForecast{n, f, f.expected()}
	g.forecasts[trial] = made
	return made, true
}

// guarded changes what a rung decided, d, and looks at trials that live by the guard.
func (a *ASHA) guarded(v tune.View, trial int, t *ashaTrial, last tune.Report, d tune.Decision, rng *rand.Rand) tune.Decision {
	cut := d.Action == tune.Stop || d.Action == tune.Pause
	switch {
	case !cut && !math.IsNaN(d.Cutoff):
		// A rung has let it pass since.
		t.guarded = false
		return d
	case !cut && !t.guarded, len(a.brackets[t.bracket].rungs) == 0:
		return d
	case cut && a.Guard.RandomShare > 0 && rng.Float64() < a.Guard.RandomShare:
		t.guarded, t.paused = false, false
		d.Action, d.Rule = tune.Continue, d.Rule+", kept at random"
		return d
	}
	verdict := a.verdict(v, trial, t, last)
	if verdict.Action == tune.Continue {
		t.guarded, t.paused = true, false
	} else {
		t.guarded = false
		if a.Rule == Promotion {
			verdict.Action, t.paused = tune.Pause, true
		}
	}
	return verdict
}

// verdict says whether a trial that was to be cut goes on: Continue or Stop.
func (a *ASHA) verdict(v tune.View, trial int, t *ashaTrial, last tune.Report) tune.Decision {
	g := a.Guard
	d := explain(tune.Continue, "", last.Value)
	d.Rung = max(t.rung()-1, 0)
	r := &a.brackets[t.bracket].rungs[d.Rung]
	horizon := a.horizon(v)
	own, ok := g.forecast(v, trial, horizon, true)
	if !ok {
		d.Rule = fmt.Sprintf("asha guard: rung %d would cut it, its curve is still too short", d.Rung)
		return d
	}
	type final struct {
		trial int
		score float64
	}
	var finals []final
	n := len(r.entries)
	// Of very many curves every stride-th counts, in their order at the rung.
	stride := max(n/maxCurves, 1)
	for i := stride / 2; i < n; i += stride {
		e := r.entries[i]
		if e.trial == trial {
			continue
		}
		if f, ok := g.forecast(v, e.trial, horizon, false); ok {
			finals = append(finals, final{e.trial, f.expected})
		}
	}
	slices.SortStableFunc(finals, func(a, b final) int { return cmp.Compare(b.score, a.score) })
	k := max(int(float64(n)/float64(stride)/a.eta()+1e-9), 1)
	if len(finals) < k {
		d.Rule = fmt.Sprintf("asha guard: rung %d would cut it, but few curves to compare it with are known", d.Rung)
		return d
	}
	cutoff := finals[k-1].score
	d.Cutoff = v.Score(cutoff)
	for _, f := range finals[:min(k, maxCompetitors)] {
		d.Competitors = append(d.Competitors, f.trial)
	}
	p := own.f.above(cutoff)
	d.Rule = fmt.Sprintf("asha guard: P(final beats %.4g) = %.2g", d.Cutoff, p)
	if p <= g.probability() {
		d.Action = tune.Stop
	}
	return d
}

// rung is the number of rungs that the trial has passed.
func (t *ashaTrial) rung() int {
	n := t.next
	for k := range 64 {
		if t.recorded>>k&1 == 1 {
			n = max(n, k+1)
		}
	}
	return n
}

// horizon is the step to which curves are extrapolated.
func (a *ASHA) horizon(v tune.View) float64 {
	if a.MaxStep > 0 {
		return float64(a.MaxStep)
	}
	last := 1
	for t := range v.Trials() {
		step, _ := t.LastStep()
		last = max(last, step)
	}
	return float64(last)
}
