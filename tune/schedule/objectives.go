package schedule

import "github.com/paragon-train/paragon/tune"

// The schedulers and pruners below judge a trial by the value of one metric: with several
// objectives that would throw away trials which are good by the others, so a study refuses it.

// SingleObjective implements tune.SingleObjective.
func (a *ASHA) SingleObjective() bool { return true }

// SingleObjective implements tune.SingleObjective.
func (p *Predict) SingleObjective() bool { return true }

// SingleObjective implements tune.SingleObjective.
func (h *Hyperband) SingleObjective() bool { return true }

// SingleObjective implements tune.SingleObjective.
func (o *OptunaHyperband) SingleObjective() bool { return true }

// SingleObjective implements tune.SingleObjective.
func (m *MedianStopping) SingleObjective() bool { return true }

// SingleObjective implements tune.SingleObjective.
func (p *Percentile) SingleObjective() bool { return true }

// SingleObjective implements tune.SingleObjective.
func (p *Patience) SingleObjective() bool { return true }

// SingleObjective implements tune.SingleObjective.
func (h *Threshold) SingleObjective() bool { return true }

// SingleObjective implements tune.SingleObjective.
func (p *PBT) SingleObjective() bool { return true }

// SingleObjective implements tune.SingleObjective.
func (a Any) SingleObjective() bool { return single(a...) }

// SingleObjective implements tune.SingleObjective.
func (a All) SingleObjective() bool { return single(a...) }

// SingleObjective implements tune.SingleObjective: dividing nodes compares no values, Inner may.
func (g *Goodput) SingleObjective() bool { return single(g.Inner) }

// SingleObjective implements tune.SingleObjective.
func (r Reached) SingleObjective() bool { return true }

// SingleObjective implements tune.SingleObjective.
func (p TrialPlateau) SingleObjective() bool { return true }

// SingleObjective implements tune.SingleObjective.
func (p *StudyPlateau) SingleObjective() bool { return true }

// SingleObjective implements tune.SingleObjective.
func (a AnyPruner) SingleObjective() bool { return single(a...) }

// SingleObjective implements tune.SingleObjective.
func (a AllPruners) SingleObjective() bool { return single(a...) }

// single says whether one of the parts judges by one metric.
func single[T any](parts ...T) bool {
	for _, p := range parts {
		if s, ok := any(p).(tune.SingleObjective); ok && s.SingleObjective() {
			return true
		}
	}
	return false
}
