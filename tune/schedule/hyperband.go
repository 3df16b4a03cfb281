package schedule

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
)

// Hyperband runs trials in brackets of successive halving (Li et al. 2018), synchronously: a trial
// that has reached the steps of its round pauses until all trials of its bracket have; then the
// best continue and the others are stopped. New trials fill one bracket after another; after the
// last bracket of the table the first one follows again.
//
// A trial that fails or ends counts as having reached the round, and is not among the best. ASHA
// with Brackets is the same without waiting.
//
// In a study with a Fidelity the rounds are at its levels, and the trials of a bracket begin at
// that of its first round.
type Hyperband struct {
	// MaxStep is the step at which a trial is complete. It must be set.
	MaxStep int
	// Eta is the factor of the table. Zero is 3.
	Eta float64
	// Table is PaperTable, PrintedTable or RayTable.
	Table string

	err      error
	last     int
	table    []HyperbandBracket
	brackets []*halving
	of       map[int]*halving
	// orders are for other trials, and go out with the next decision.
	orders []tune.TrialDecision
}

// A halving is one bracket at work.
type halving struct {
	HyperbandBracket
	number int
	// joined is how many trials it ever had.
	joined int
	// members are the trials that are still in the race.
	members []int
	// arrived has for each of those trials the round that it has reached and waits in.
	arrived map[int]int
	score   map[int]float64
	round   int
}

// Validate says what is wrong with the fields.
func (h *Hyperband) Validate() error {
	if h.MaxStep < 1 {
		return fmt.Errorf("schedule: Hyperband: MaxStep is %d: want the step at which a trial is complete", h.MaxStep)
	}
	if h.Eta != 0 && !(h.Eta > 1) {
		return fmt.Errorf("schedule: Hyperband: Eta is %v: want more than 1", h.Eta)
	}
	_, err := HyperbandTable(h.Table, h.MaxStep, h.eta())
	return err
}

// eta is Eta, or its default.
func (h *Hyperband) eta() float64 {
	if h.Eta > 1 {
		return h.Eta
	}
	return 3
}

// setup makes the table by the view of the first call.
func (h *Hyperband) setup(v tune.View) {
	if h.of != nil {
		return
	}
	h.of = make(map[int]*halving)
	h.last = h.MaxStep
	if h.err = h.Validate(); h.err != nil {
		return
	}
	if f := v.Fidelity(); f != nil {
		h.last = f.Step(f.High)
		h.table, h.err = levelTable(h.Table, f.Steps(), h.eta())
		return
	}
	h.table, h.err = HyperbandTable(h.Table, h.MaxStep, h.eta())
}

// Started implements tune.Scheduler: a new trial joins the bracket that is being filled. A trial
// that starts while its round is over was chosen by Next.
func (h *Hyperband) Started(v tune.View, trial int) {
	h.setup(v)
	if h.err != nil {
		return
	}
	if b := h.of[trial]; b != nil {
		if _, waits := b.arrived[trial]; waits && h.over(v, b) {
			h.halve(b)
		}
		delete(b.arrived, trial)
		return
	}
	if n := len(h.brackets); n == 0 || h.brackets[n-1].full() {
		b := &halving{HyperbandBracket: h.table[n%len(h.table)], number: n, arrived: make(map[int]int), score: make(map[int]float64)}
		h.brackets = append(h.brackets, b)
	}
	b := h.brackets[len(h.brackets)-1]
	b.members = append(b.members, trial)
	b.joined++
	h.of[trial] = b
}

// full says whether the bracket has all its trials; one that has gone past its first round takes no
// more.
func (b *halving) full() bool {
	return b.round > 0 || b.joined >= b.Rounds[0].Trials
}

// Ended implements tune.Scheduler.
func (h *Hyperband) Ended(v tune.View, trial int) {
	h.setup(v)
	if b := h.of[trial]; b != nil {
		b.members = slices.DeleteFunc(b.members, func(m int) bool { return m == trial })
		delete(b.arrived, trial)
	}
}

// Reported implements tune.Scheduler.
func (h *Hyperband) Reported(v tune.View, trial int, _ *rand.Rand) tune.Decision {
	h.setup(v)
	if h.err != nil {
		return invalid(h.err)
	}
	d := tune.Go()
	last, ok := v.Trial(trial).Last()
	b := h.of[trial]
	switch {
	case !ok || b == nil:
	case last.Step >= h.last:
		d = explain(tune.Complete, "hyperband: last step", last.Value)
	case b.round < len(b.Rounds) && last.Step >= b.Rounds[b.round].Steps:
		d = h.arrive(v, b, trial, last)
	}
	d.Others = append(d.Others, h.orders...)
	h.orders = nil
	return d
}

// arrive notes that a trial has reached its round, and halves the bracket if it was the last one.
func (h *Hyperband) arrive(v tune.View, b *halving, trial int, last tune.Report) tune.Decision {
	round := b.round
	b.arrived[trial] = round
	b.score[trial] = v.Score(last.Value)
	d := explain(tune.Pause, fmt.Sprintf("hyperband bracket %d (s=%d) round %d: waits for %d of %d", b.number, b.S, round,
		len(b.members)-len(b.arrived), len(b.members)), last.Value)
	d.Rung = round
	if !h.over(v, b) {
		return d
	}
	competitors := slices.Clone(b.members[:min(len(b.members), maxCompetitors)])
	keep := h.halve(b)
	d.Competitors = competitors
	d.Rule = fmt.Sprintf("hyperband bracket %d (s=%d) round %d: the best %d go on", b.number, b.S, round, len(keep))
	d.Cutoff = math.NaN()
	if len(keep) > 0 {
		d.Cutoff = v.Score(b.score[keep[len(keep)-1]])
	}
	d.Action = tune.Stop
	if slices.Contains(keep, trial) {
		d.Action = tune.Continue
		delete(b.arrived, trial)
	}
	for _, k := range keep {
		if k != trial {
			d.Others = append(d.Others, tune.TrialDecision{Trial: k, Action: tune.GoOn, Rule: d.Rule})
		}
	}
	h.orders = slices.DeleteFunc(h.orders, func(o tune.TrialDecision) bool { return o.Trial == trial })
	return d
}

// over says whether all of the bracket have arrived and no more will come.
func (h *Hyperband) over(v tune.View, b *halving) bool {
	if len(b.members) == 0 || !b.full() && !v.Exhausted() {
		return false
	}
	for _, m := range b.members {
		if r, ok := b.arrived[m]; !ok || r != b.round {
			return false
		}
	}
	return true
}

// survivors are the best of the bracket's members, best first: those that go on to the next round.
func (h *Hyperband) survivors(b *halving) []int {
	sorted := slices.Clone(b.members)
	slices.SortStableFunc(sorted, func(x, y int) int { return cmp.Compare(b.score[y], b.score[x]) })
	n := len(sorted)
	if b.round+1 < len(b.Rounds) {
		planned := b.Rounds[b.round+1].Trials
		// A bracket that was not filled, or lost trials, keeps the same part of them.
		if n < b.Rounds[b.round].Trials {
			planned = min(planned, max(int(float64(n)/h.eta()+1e-9), 1))
		}
		n = min(n, planned)
	}
	return sorted[:n]
}

// halve ends the bracket's round: it returns the survivors and orders the others to stop.
func (h *Hyperband) halve(b *halving) []int {
	keep := h.survivors(b)
	for _, m := range b.members {
		if !slices.Contains(keep, m) {
			delete(b.arrived, m)
			h.orders = append(h.orders, tune.TrialDecision{Trial: m, Action: tune.Stop, Rule: fmt.Sprintf("hyperband bracket %d (s=%d) round %d", b.number, b.S, b.round)})
		}
	}
	b.members = slices.Clone(keep)
	b.round++
	return keep
}

// Next implements tune.Scheduler. Trials whose bracket was halved without a report, since the last
// one of it failed or since there are no new ones to fill it, are chosen here.
func (h *Hyperband) Next(v tune.View) tune.TrialChoice {
	for _, b := range h.brackets {
		var chosen []int
		switch {
		case h.over(v, b):
			chosen = h.survivors(b)
		default:
			// It is left over from a round that has ended.
			for _, m := range b.members {
				if r, ok := b.arrived[m]; ok && r < b.round {
					chosen = append(chosen, m)
				}
			}
		}
		for _, m := range chosen {
			if v.Trial(m).State == tune.Paused {
				return tune.TrialChoice{Kind: tune.ChoosePaused, Trial: m, Rule: fmt.Sprintf("hyperband bracket %d (s=%d): goes on to round %d", b.number, b.S, b.round+1)}
			}
		}
	}
	if h.setup(v); v.Fidelity() == nil || h.err != nil {
		return tune.TrialChoice{}
	}
	b := h.table[len(h.brackets)%len(h.table)]
	if n := len(h.brackets); n > 0 && !h.brackets[n-1].full() {
		b = h.brackets[n-1].HyperbandBracket
	}
	return tune.TrialChoice{Step: b.Rounds[0].Steps}
}

// NextStep implements tune.Staged.
func (h *Hyperband) NextStep(v tune.View, trial int) int {
	b := h.of[trial]
	if b == nil || h.err != nil {
		return 0
	}
	round := b.round
	if h.over(v, b) {
		round++
	}
	if round < len(b.Rounds) {
		return b.Rounds[round].Steps
	}
	return h.MaxStep
}
