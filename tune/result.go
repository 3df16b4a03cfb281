package tune

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/observe/plural"
)

// A Result is what a search found. It never changes.
type Result struct {
	// Name, Metric and Mode of the study, and the rule that Halted it ("": it ran to its end).
	// Metric and Mode are those of the first objective, if there are several.
	Name   string
	Metric string
	Mode   Mode
	Halted string
	// Missed says for people what Config.Deadline has kept from being done: trials that were
	// not started, not continued or stopped. "" is nothing.
	Missed string
	// Elapsed is how long the study had run, summed over all resumes.
	Elapsed time.Duration

	cfg    Config
	trials []Trial
	best   Trial
	hash   string
}

// Result returns what the study has found so far.
func (s *Study) Result() *Result {
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	return s.l.result()
}

// result is what the study has found so far.
func (l *ledger) result() *Result {
	r := &Result{Name: l.view.cfg.Name, Metric: l.view.goals.metric, Mode: l.view.Mode(), Halted: l.view.stops.halted, Missed: l.view.missed(), Elapsed: l.view.elapsed, cfg: *l.view.cfg, hash: l.hash.sum(), best: Trial{Number: -1, Best: -1}}
	for _, t := range l.view.trials {
		r.trials = append(r.trials, t.Clone())
	}
	if l.view.best >= 0 {
		r.best = r.trials[l.view.best]
	}
	return r
}

// Trials are all trials, by number.
func (r *Result) Trials() []Trial { return r.trials }

// BestTrial is the trial with the best result, the earliest among equals. Its Number is -1 if no
// feasible trial has a finite result; Run returns an error then. With several objectives it is -1,
// too: use Front. In AutoGluon's words, BestTrial().Params is get_best_config(), Value(BestTrial())
// get_best_reward(), and BestTrial().Number get_best_task_id().
func (r *Result) BestTrial() Trial { return r.best }

// DecisionHash is a hash of all proposed parameters and all decisions, in hexadecimal. Two searches
// with the same reports in the same order have the same hash.
func (r *Result) DecisionHash() string { return r.hash }

// value is the result of a trial, or NaN.
func (r *Result) value(t *Trial) float64 { return r.cfg.result(t) }

// Value returns the result of a trial by the study's metric and scope; NaN if it has none.
func (r *Result) Value(t Trial) float64 { return r.value(&t) }

// BestBy returns the trial with the best value of a reported metric, over all its reports, and that
// value. The error names the reported metrics.
func (r *Result) BestBy(metric string, mode Mode) (Trial, float64, error) {
	mode, err := mode.resolve(metric)
	if err != nil {
		return Trial{Number: -1, Best: -1}, math.NaN(), err
	}
	best, value := Trial{Number: -1, Best: -1}, math.NaN()
	for _, t := range r.trials {
		for _, x := range t.Reports {
			v, ok := x.Metrics.Get(metric)
			if ok && mode.Score(v) > math.Inf(-1) && (best.Number < 0 || mode.Score(v) > mode.Score(value)) {
				best, value = t, v
			}
		}
	}
	if best.Number < 0 {
		return best, value, fmt.Errorf("tune: study %s: metric %q has no finite value: reported were %s: %w", r.Name, metric, orNone(r.Metrics()), ErrNoMetric)
	}
	return best, value, nil
}

// Metrics are the names of all that was reported, sorted.
func (r *Result) Metrics() []string {
	names := map[string]bool{}
	for _, t := range r.trials {
		for _, x := range t.Reports {
			for _, m := range x.Metrics {
				names[m.Name] = true
			}
		}
	}
	all := make([]string, 0, len(names))
	for name := range names {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Top returns the k best feasible trials with a finite result, the best first. With several
// objectives there is no such order, and it returns none: use Front.
func (r *Result) Top(k int) []Trial {
	if r.cfg.several() {
		return nil
	}
	var all []Trial
	for _, t := range r.trials {
		if ranked, ok := r.cfg.ranked(&t); ok && isFinite(ranked.Value) && violation(r.cfg.Constraints, ranked.Metrics) == 0 {
			all = append(all, t)
		}
	}
	slices.SortStableFunc(all, func(a, b Trial) int {
		x, y := r.Mode.Score(r.value(&a)), r.Mode.Score(r.value(&b))
		return b2i(x < y) - b2i(x > y)
	})
	return all[:min(max(k, 0), len(all))]
}

// nothing is the error of a search without a result: it counts the trials by state.
func (r *Result) nothing() error {
	counts := map[State]int{}
	example, hint := "", ""
	for _, t := range r.trials {
		counts[t.State]++
		if t.Error == noReport {
			hint = fmt.Sprintf("; a function reports with Reporter.Report, a command with a line such as %s=0.91 step=3", cmp.Or(r.Metric, "accuracy"))
		}
		if t.Error != "" && example == "" {
			example = fmt.Sprintf("; trial %d: %s: %s", t.Number, t.Failure, firstLine(t.Error))
		}
	}
	var parts []string
	for _, s := range []State{Completed, Pruned, Failed, Stopped, Paused, Pending, Running} {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	if f := r.cfg.Fidelity; f != nil {
		hint += fmt.Sprintf("; only results at %s %v count", f.Parameter, f.High)
	}
	metric := r.Metric
	switch {
	case metric == "":
		metric = "any metric"
	case r.cfg.several():
		metric = "all of " + strings.Join(texts(r.Objectives()), ", ")
	}
	if nearest := r.leastViolating(); nearest.Number >= 0 {
		return fmt.Errorf("tune: study %s: no feasible trial: %s, %s; the nearest, trial %d, has %s: %w", r.Name, plural.Of(len(r.trials), "trial"), orNone(parts), nearest.Number, r.violated(nearest), ErrNoResult)
	}
	return fmt.Errorf("tune: study %s: no finite value of %s: %s, %s%s%s: %w", r.Name, metric, plural.Of(len(r.trials), "trial"), orNone(parts), example, hint, ErrNoResult)
}

// leastViolating is the trial that violates the constraints least, the earliest of equals. Its
// Number is -1 if none has a result and violates any.
func (r *Result) leastViolating() Trial {
	nearest, least := Trial{Number: -1, Best: -1}, math.Inf(1)
	for _, t := range r.trials {
		if ranked, ok := r.cfg.ranked(&t); ok && isFinite(ranked.Value) {
			if v := violation(r.cfg.Constraints, ranked.Metrics); v > 0 && (nearest.Number < 0 || v < least) {
				nearest, least = t, v
			}
		}
	}
	return nearest
}

// violated says which constraints a trial violates, and by which values.
func (r *Result) violated(t Trial) string {
	ranked, _ := r.cfg.ranked(&t)
	var all []string
	for _, c := range r.cfg.Constraints {
		if value, _ := ranked.Metrics.Get(c.Metric); c.Violation(value) > 0 {
			all = append(all, fmt.Sprintf("%s %.6g, want %v", c.Metric, value, c))
		}
	}
	return strings.Join(all, "; ")
}

// Front is the Pareto front of the study: see the function Front. With one objective it has the
// trials with the best value.
func (r *Result) Front() []Trial {
	var front []Trial
	for _, t := range Front(r.View()) {
		front = append(front, r.trials[t.Number])
	}
	return front
}

// Values are a trial's values by objective, as reported; nil if it has none.
func (r *Result) Values(t Trial) []float64 { return r.View().Values(&t) }

// Violation is the sum of a trial's violations of the constraints, each as a share of its bound's
// magnitude: 0 if it is feasible, NaN if it has no result.
func (r *Result) Violation(t Trial) float64 { return r.View().Violation(&t) }

// Objectives are the study's metrics with their modes: one, or those of Config.Objectives.
func (r *Result) Objectives() []Objective {
	if r.cfg.several() {
		return resolved(r.cfg.Objectives)
	}
	return []Objective{{r.Metric, r.Mode}}
}

// View is the result as observers see a study. It remains valid.
func (r *Result) View() View {
	v := &standings{cfg: &r.cfg, counts: map[State]int{}, best: r.best.Number, stops: stops{exhausted: true}, elapsed: r.Elapsed, told: r.Missed}
	v.goals = goals{metric: r.Metric, mode: r.Mode, objectives: resolved(r.cfg.Objectives), constraints: r.cfg.Constraints}
	// The plan cannot fail: it was valid when the study began.
	v.plan, _ = newPlan(&r.cfg)
	for i := range r.trials {
		t := r.trials[i]
		v.trials = append(v.trials, &t)
		v.counts[t.State]++
	}
	return v
}
