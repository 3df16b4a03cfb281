package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
)

// synchronous pauses a trial at the common time, and exploits when it was the last to come.
func (p *PBT) synchronous(v tune.View, trial int, m *member, last tune.Report, rng *rand.Rand) tune.Decision {
	if p.next == 0 {
		p.next = max(p.BurnIn, p.interval())
	}
	if m.time < p.next {
		return tune.Go()
	}
	m.score, m.scored, m.last, m.waits = v.Score(last.Value), true, m.time, true
	d := explain(tune.Pause, fmt.Sprintf("pbt: waits for the others at %v", p.next), last.Value)
	if !p.allWait(v) {
		return d
	}
	lower, upper := p.quantiles(v)
	d.Action, d.Rule = tune.Continue, "pbt: goes on"
	d.Competitors = upper[:min(len(upper), maxCompetitors)]
	for _, n := range sortedKeys(p.trials) {
		o := p.trials[n]
		if !o.waits {
			continue
		}
		own := tune.Go()
		if slices.Contains(lower, n) {
			p.exploit(v, n, o, upper, &own, rng)
		}
		switch {
		case n != trial && own.Action == tune.Exploit:
			d.Others = append(d.Others, tune.TrialDecision{Trial: n, Action: tune.Exploit, Rule: own.Rule, Donor: own.Donor, Params: own.Params})
			fallthrough
		case n != trial:
			d.Others = append(d.Others, tune.TrialDecision{Trial: n, Action: tune.GoOn, Rule: "pbt: all have come"})
		case own.Action == tune.Exploit:
			d.Action, d.Rule, d.Donor, d.Params = own.Action, own.Rule, own.Donor, own.Params
		}
	}
	p.release(v)
	m.waits, m.released = false, false
	return d
}

// sortedKeys are a map's keys in order: no decision may depend on the order of a map.
func sortedKeys(m map[int]*member) []int {
	var keys []int
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// allWait says whether all trials that are alive wait, and no new ones will come.
func (p *PBT) allWait(v tune.View) bool {
	if p.moreToCome(v) {
		return false
	}
	any := false
	for t := range v.Trials() {
		if t.State.Final() {
			continue
		}
		m := p.trials[t.Number]
		if m == nil || !m.waits || m.released {
			return false
		}
		any = true
	}
	return any
}

// release ends the round: the next look is one interval later, or when the trial that has trained
// longest gets there.
func (p *PBT) release(v tune.View) {
	longest := 0.0
	for n, m := range p.trials {
		if !v.Trial(n).State.Final() {
			longest = max(longest, m.time)
		}
		if m.waits {
			m.released = true
		}
	}
	p.next = max(p.next+p.interval(), longest)
}

// nextSynchronous lets trials go on whose round has ended without a report, since the last one of
// it failed or since there were no new ones to wait for; nothing is exploited in such a round.
func (p *PBT) nextSynchronous(v tune.View) tune.TrialChoice {
	all := p.allWait(v)
	for _, n := range sortedKeys(p.trials) {
		if m := p.trials[n]; m.waits && (all || m.released) && v.Trial(n).State == tune.Paused {
			return tune.TrialChoice{Kind: tune.ChoosePaused, Trial: n, Rule: "pbt: the round is over"}
		}
	}
	return tune.TrialChoice{Kind: tune.ChooseNone}
}
