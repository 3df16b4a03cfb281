package adapt

import "fmt"

// DefaultSmoothing is the decay of the averages over one step at the initial batch size.
const DefaultSmoothing = 0.999

// An Estimator averages the measurements of one parameter group.
//
// The averages decay by θ = smoothing^S at each step, so a step counts by its examples, and their
// bias towards the start is corrected:
//
//	B ← θ·B + (1−θ)·x,   U ← θ·U + (1−θ),   average = B/U
//
// Before the first measurement the noise is {Sqr: 1, Var: 0}, which has a gain of 1 at every scale.
// An Estimator is not safe for concurrent use.
type Estimator struct {
	smoothing float64
	state     State
}

// State is what an Estimator has learned, for checkpoints: Restore of a State goes on exactly as
// the Estimator that it was taken from. JSON keeps the numbers exactly.
type State struct {
	// Sqr and Var are sums, each measurement weighted by its share.
	Sqr, Var float64
	// Weight is the sum of the weights, below 1; 0: nothing was measured.
	Weight float64
	// Biased says that differences are among the measurements.
	Biased bool
	// Unbiased is what of the sums comes from measurements that are not differences. Without
	// Biased it is all, and is left zero.
	Unbiased Sums `json:",omitzero"`
	// Evidence is what bounds the noise. A State of a version without it has none, which is as
	// if nothing had been measured for a bound.
	Evidence Evidence `json:",omitzero"`
}

// NewEstimator returns an Estimator that has measured nothing. smoothing is the decay of the
// averages over one step at the initial batch size; zero means 0.999. It panics where smoothing is
// outside [0, 1).
func NewEstimator(smoothing float64) *Estimator {
	if !(smoothing >= 0 && smoothing < 1) {
		panic(fmt.Sprintf("adapt: NewEstimator: smoothing %g, want at least 0 and below 1", smoothing))
	}
	if smoothing == 0 {
		smoothing = DefaultSmoothing
	}
	return &Estimator{smoothing: smoothing}
}

// Add takes the measurement of one step. One that says nothing (see Measurement.Noise) leaves the
// averages alone: a float16 overflow, or Count 1; a difference with the step before is the
// caller's, see Difference. The first measurement that is not Biased discards those before that
// were; what was measured without bias before them stays.
func (e *Estimator) Add(m Measurement) {
	n, ok := m.Noise()
	if !ok {
		return
	}
	e.add(n, m)
}

func (e *Estimator) add(n Noise, m Measurement) {
	s := e.state
	switch {
	case s.Biased && !m.Biased:
		s = State{Sqr: s.Unbiased.Sqr, Var: s.Unbiased.Var, Weight: s.Unbiased.Weight}
	case m.Biased && !s.Biased:
		s.Unbiased = Sums{s.Sqr, s.Var, s.Weight}
	}
	// The conversions to float64 round products: see decay.
	keep := decay(e.smoothing, m.Scale)
	if s.Unbiased = (Sums{keep * s.Unbiased.Sqr, keep * s.Unbiased.Var, keep * s.Unbiased.Weight}); s.Unbiased.Weight < leastWeight {
		s.Unbiased = Sums{}
	}
	s.Sqr = float64(keep*s.Sqr) + float64((1-keep)*n.Sqr)
	s.Var = float64(keep*s.Var) + float64((1-keep)*n.Var)
	s.Weight = float64(keep*s.Weight) + (1 - keep)
	s.Biased = m.Biased
	// A batch may be so small that it has no share.
	if s.Weight == 0 {
		return
	}
	s.Evidence.decay(keep)
	// Evidence whose squares overflowed begins anew.
	if !m.Biased {
		if s.Evidence.add(n, 1-keep, m.Apart); s.Evidence.validate() != nil {
			s.Evidence = Evidence{}
		}
	}
	if finite(s.Sqr/s.Weight) && finite(s.Var/s.Weight) {
		e.state = s
	}
}

// Noise are the averages. They are not cut at their floors: Gain and Total do that.
func (e *Estimator) Noise() Noise {
	if e.state.Weight == 0 {
		return Noise{Sqr: 1, Var: 0}
	}
	return Noise{Sqr: e.state.Sqr / e.state.Weight, Var: e.state.Var / e.state.Weight}
}

// Bound is the noise that a gain may count on: the one with the smallest gain, at any scale above
// 1, that the measurements leave possible at a confidence of 95 %, with half the noise scale. Sqr +
// Var is what was measured, and Sqr the largest part of it. ok is false where the measurements are
// too few to say anything; the noise then is {Sqr: 1, Var: 0}, with a gain of 1. Differences of
// steps count for nothing here: their bias is not known.
func (e *Estimator) Bound() (n Noise, ok bool) {
	part, ok := e.state.Evidence.bound()
	n = e.Noise()
	total := n.Sqr + n.Var
	if !ok || !(total > 0) {
		return Noise{Sqr: 1, Var: 0}, false
	}
	part *= caution / (1 + float64((caution-1)*part))
	return Noise{Sqr: part * total, Var: (1 - part) * total}, true
}

// Samples is how many independent blocks of measurements Bound rests on.
func (e *Estimator) Samples() float64 {
	_, _, samples := e.state.Evidence.estimate()
	return samples
}

// Measured reports whether anything was measured.
func (e *Estimator) Measured() bool { return e.state.Weight > 0 }

// Biased reports whether the averages come from differences of steps.
func (e *Estimator) Biased() bool { return e.state.Biased }

// Discard forgets all measurements.
func (e *Estimator) Discard() { e.state = State{} }

// State is what was learned.
func (e *Estimator) State() State { return e.state }

// Restore replaces what was learned.
func (e *Estimator) Restore(s State) error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("adapt: restore estimator: %w", err)
	}
	e.state = s
	return nil
}

func (s State) validate() error {
	switch {
	case !(s.Weight >= 0 && s.Weight <= 1):
		return fmt.Errorf("Weight is %g, want 0 to 1", s.Weight)
	case s.Weight == 0 && s != State{}:
		return fmt.Errorf("Weight is 0, but Sqr is %g, Var %g and Biased %t, want all zero", s.Sqr, s.Var, s.Biased)
	case s.Unbiased != Sums{} && !s.Biased:
		return fmt.Errorf("Unbiased is %+v and Biased is false, want zeros", s.Unbiased)
	case !(s.Unbiased.Weight >= 0 && s.Unbiased.Weight <= s.Weight) || s.Unbiased.Weight == 0 && s.Unbiased != Sums{}:
		return fmt.Errorf("Unbiased is %+v with a Weight of %g, want a part of it", s.Unbiased, s.Weight)
	case s.Unbiased.Weight > 0 && (!finite(s.Unbiased.Sqr/s.Unbiased.Weight) || !finite(s.Unbiased.Var/s.Unbiased.Weight)):
		return fmt.Errorf("Unbiased is %+v, want finite averages", s.Unbiased)
	case s.Weight > 0 && (!finite(s.Sqr/s.Weight) || !finite(s.Var/s.Weight)):
		return fmt.Errorf("Sqr is %g and Var %g with Weight %g, want finite averages", s.Sqr, s.Var, s.Weight)
	}
	return s.Evidence.validate()
}

// Estimators are one Estimator for each parameter group of a model.
type Estimators struct{ groups []*Estimator }

// NewEstimators returns an Estimator for each of so many groups; smoothing is NewEstimator's. It
// panics where groups is below 1.
func NewEstimators(groups int, smoothing float64) *Estimators {
	if groups < 1 {
		panic(fmt.Sprintf("adapt: NewEstimators: %d groups, want at least 1", groups))
	}
	e := &Estimators{groups: make([]*Estimator, groups)}
	for i := range e.groups {
		e.groups[i] = NewEstimator(smoothing)
	}
	return e
}

// Add takes the measurements of one step, one for each group in order. Where one of them says
// nothing all averages are left alone, since a gradient that overflowed in one group is applied in
// none. It panics if len(step) is not the number of groups.
func (e *Estimators) Add(step []Measurement) {
	if len(step) != len(e.groups) {
		panic(fmt.Sprintf("adapt: Estimators.Add: got measurements of %d groups, want %d", len(step), len(e.groups)))
	}
	for _, m := range step {
		if _, ok := m.Noise(); !ok {
			return
		}
	}
	for i, m := range step {
		e.groups[i].Add(m)
	}
}

// Group is the noise of one group.
func (e *Estimators) Group(i int) Noise { return e.groups[i].Noise() }

// Noise is the total over the groups. Before the first measurement it is {Sqr: 1, Var: 0}.
func (e *Estimators) Noise() Noise {
	if !e.Measured() {
		return Noise{Sqr: 1, Var: 0}
	}
	noises := make([]Noise, len(e.groups))
	for i, g := range e.groups {
		noises[i] = g.Noise()
	}
	return Total(noises...)
}

// GroupBound is the bound of one group: see Estimator.Bound.
func (e *Estimators) GroupBound(i int) (n Noise, ok bool) { return e.groups[i].Bound() }

// Bound is the total of the groups' bounds, which is a bound for all together; ok is false, and the
// gain 1, where one of them has none.
func (e *Estimators) Bound() (n Noise, ok bool) {
	noises := make([]Noise, len(e.groups))
	for i, g := range e.groups {
		if noises[i], ok = g.Bound(); !ok {
			return Noise{Sqr: 1, Var: 0}, false
		}
	}
	return Total(noises...), true
}

// Blocks is how many blocks of measurements there were since the last Discard: so it tells what is
// fresh.
func (e *Estimators) Blocks() int { return e.groups[0].state.Evidence.Blocks }

// Measured reports whether anything was measured.
func (e *Estimators) Measured() bool { return e.groups[0].Measured() }

// Biased reports whether the averages come from differences of steps.
func (e *Estimators) Biased() bool { return e.groups[0].Biased() }

// Discard forgets all measurements of all groups.
func (e *Estimators) Discard() {
	for _, g := range e.groups {
		g.Discard()
	}
}

// State is what was learned, by group.
func (e *Estimators) State() []State {
	states := make([]State, len(e.groups))
	for i, g := range e.groups {
		states[i] = g.State()
	}
	return states
}

// Restore replaces what was learned in all groups, or nothing where there is an error.
func (e *Estimators) Restore(states []State) error {
	if len(states) != len(e.groups) {
		return fmt.Errorf("adapt: restore estimators: got states of %d groups, want %d", len(states), len(e.groups))
	}
	for i, s := range states {
		if err := s.validate(); err != nil {
			return fmt.Errorf("adapt: restore estimators: group %d: %w", i, err)
		}
	}
	for i, s := range states {
		e.groups[i].state = s
	}
	return nil
}
