package schedule

import "github.com/paragon-train/paragon/tune"

// The schedulers and pruners below follow one trial over its steps. In a study with a Fidelity
// steps are levels, each a training of its own, so such a study refuses them.

// Stepwise implements tune.Stepwise: the guard needs a curve.
func (a *ASHA) Stepwise() bool { return a.Guard != nil }

// Stepwise implements tune.Stepwise: its sets of rungs begin at steps that are no levels.
func (o *OptunaHyperband) Stepwise() bool { return true }

// Stepwise implements tune.Stepwise.
func (p *Patience) Stepwise() bool { return true }

// Stepwise implements tune.Stepwise.
func (p *PBT) Stepwise() bool { return true }

// Stepwise implements tune.Stepwise.
func (a Any) Stepwise() bool { return stepwise(a...) }

// Stepwise implements tune.Stepwise.
func (a All) Stepwise() bool { return stepwise(a...) }

// Stepwise implements tune.Stepwise.
func (p TrialPlateau) Stepwise() bool { return true }

// Stepwise implements tune.Stepwise.
func (a AnyPruner) Stepwise() bool { return stepwise(a...) }

// Stepwise implements tune.Stepwise.
func (a AllPruners) Stepwise() bool { return stepwise(a...) }

// stepwise says whether one of the parts follows a trial over its steps.
func stepwise[T any](parts ...T) bool {
	for _, p := range parts {
		if s, ok := any(p).(tune.Stepwise); ok && s.Stepwise() {
			return true
		}
	}
	return false
}
