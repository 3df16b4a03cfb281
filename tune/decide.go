package tune

import (
	"fmt"
	"math"
	"slices"

	"github.com/paragon-train/paragon/tune/internal/checkpoints"
)

// maxCompetitors bounds the trials that a decision names as compared with.
const maxCompetitors = 64

// judge applies a report, and decides about it.
func (l *ledger) judge(e *Event) error {
	if err := l.record(e); err != nil {
		return err
	}
	var enough string
	e.Decision, enough = l.decide(e)
	l.obey(e, enough)
	return nil
}

// record adds a report to its trial. The first report determines the metric if the config does not.
func (l *ledger) record(e *Event) error {
	t := l.view.Trial(e.Trial)
	if t == nil || !t.run.active || e.Attempt != t.Attempts {
		return fmt.Errorf("event %d: report of trial %d attempt %d, which is not running", e.Seq, e.Trial, e.Attempt)
	}
	if last, ok := t.LastStep(); ok && e.Step <= last {
		return fmt.Errorf("event %d: report of trial %d at step %d after step %d", e.Seq, e.Trial, e.Step, last)
	}
	if l.view.goals.metric == "" {
		metric, mode, err := l.view.goals.choice(e.Metrics)
		if err != nil {
			return err
		}
		l.view.goals.metric, l.view.goals.mode = metric, mode
	}
	t.clock(e)
	value, ok := e.Metrics.Get(l.view.goals.metric)
	if ok && l.view.goals.lacks(e.Metrics) != "" {
		value, ok = math.NaN(), false
	}
	r := Report{Step: e.Step, Value: value, Metrics: e.Metrics, Seq: e.Seq, Attempt: e.Attempt, Elapsed: t.Elapsed, At: e.At, Action: Unjudged}
	if ok {
		r.Action = Continue
		l.judged = true
	}
	t.Reports = append(t.Reports, r)
	if e.Kept {
		if err := l.keep(e); err != nil {
			return err
		}
	}
	if ok && isFinite(value) && r.Step >= l.cfg.topStep() && (t.Best < 0 || l.view.goals.outranks(&r, &t.Reports[t.Best])) {
		t.Best = len(t.Reports) - 1
	}
	l.view.noteBest(t, false)
	return nil
}

// decide asks pruners and the scheduler about the newest report of a trial, unless the decision is
// from the log. The second result is the rule of a pruner that ends the study.
func (l *ledger) decide(e *Event) (Decision, string) {
	t := l.view.trials[e.Trial]
	r := t.Reports[len(t.Reports)-1]
	if t.Origin == FromElsewhere {
		return elsewhere(e.Decision), ""
	}
	if l.cfg.logged != nil {
		return l.tidy(t, e.Decision), ""
	}
	if !r.judged() {
		return l.cfg.Fidelity.levelled(t, Go()), ""
	}
	var enough string
	own := Go()
	// All pruners are asked, since they may keep caches.
	for _, s := range l.cfg.Pruners {
		halt := s.Prune(l.view, t.Number)
		if halt.StopAll && enough == "" {
			enough = halt.Rule
			if enough == "" {
				enough = fmt.Sprintf("%T", s)
			}
		}
		if own.Action == Continue && (halt.Trial == Stop || halt.Trial == Complete) {
			own.Action, own.Rule, own.Value = halt.Trial, halt.Rule, r.Value
		}
	}
	if o := t.run.order; o != nil {
		d := Go()
		d.Action, d.Rule, d.Donor, d.Params = o.Action, o.Rule, o.Donor, o.Params
		return l.cfg.Fidelity.levelled(t, l.tidy(t, d)), enough
	}
	if own.Action != Continue {
		return l.cfg.Fidelity.levelled(t, own), enough
	}
	if name, value := l.view.goals.diverged(&r); name != "" && !l.cfg.KeepDiverged {
		return Decision{Action: Stop, Rule: fmt.Sprintf("diverged: %s is %v", name, value), Value: r.Value, Cutoff: math.NaN()}, enough
	}
	d := l.scheduler.Reported(l.view, t.Number, newRand(l.cfg.Seed, streamDecide, uint64(t.Number), uint64(e.Step), uint64(len(t.Changes))))
	return l.cfg.Fidelity.levelled(t, l.tidy(t, d)), enough
}

// tidy makes a scheduler's decision valid for the ledger and the log.
func (l *ledger) tidy(t *Trial, d Decision) Decision {
	switch d.Action {
	case Stop, Complete, Pause, Continue:
		d.Donor, d.Params = 0, Params{}
	case Exploit:
		d.Action, d.Rule, d.Donor, d.Params = l.exploitable(t, d.Rule, d.Donor, d.Params)
	default:
		d.Action, d.Donor, d.Params = Continue, 0, Params{}
	}
	if len(d.Competitors) > maxCompetitors {
		d.Competitors = d.Competitors[:maxCompetitors]
	}
	d.Competitors = slices.Clone(d.Competitors)
	// The forecast is copied: the scheduler may use its own again.
	if d.Forecast != nil {
		f := *d.Forecast
		d.Forecast = &f
	}
	others := make([]TrialDecision, 0, len(d.Others))
	for _, o := range d.Others {
		u := l.view.Trial(o.Trial)
		if u == nil || u == t || u.State.Final() {
			continue
		}
		switch o.Action {
		case Stop, Complete, Pause, GoOn:
			o.Donor, o.Params = 0, Params{}
			if o.Action == Complete && l.cfg.Fidelity.climbs(u) {
				o.Action = Stop
			}
		case Exploit:
			if o.Action, o.Rule, o.Donor, o.Params = l.exploitable(u, o.Rule, o.Donor, o.Params); o.Action != Exploit {
				continue
			}
		default:
			continue
		}
		others = append(others, o)
	}
	d.Others = others
	return d
}

// exploitable turns an impossible exploit into Continue, and fills in the parameters of others.
func (l *ledger) exploitable(t *Trial, rule string, donor int, p Params) (Action, string, int, Params) {
	u := l.view.Trial(donor)
	switch {
	case l.cfg.Fidelity != nil:
		return Continue, fmt.Sprintf("%s: no exploit: a trial begins anew at each fidelity", rule), 0, Params{}
	case u == nil || u == t:
		return Continue, fmt.Sprintf("%s: no exploit: trial %d is no donor", rule, donor), 0, Params{}
	case len(u.Checkpoints) == 0:
		return Continue, fmt.Sprintf("%s: no exploit: trial %d has no checkpoint", rule, donor), 0, Params{}
	case p.Len() == 0:
		p = u.Params
	}
	return Exploit, rule, donor, p
}

// obey carries out the decision about a report.
func (l *ledger) obey(e *Event, enough string) {
	t, d := l.view.trials[e.Trial], &e.Decision
	l.hash.report(e)
	r := &t.Reports[len(t.Reports)-1]
	if r.judged() {
		r.Action, r.Forecast = d.Action, d.Forecast
	}
	t.run.order = nil
	l.tell(t, d.Action, d.Rule, d.Donor, d.Params)
	for _, o := range d.Others {
		l.order(l.view.trials[o.Trial], o)
	}
	if enough != "" && l.view.stops.enough == "" {
		l.view.stops.enough = enough
	}
}

// tell carries out an action on the trial whose attempt receives it now.
func (l *ledger) tell(t *Trial, a Action, rule string, donor int, p Params) {
	if a == Continue || a == GoOn || a == Unjudged {
		return
	}
	t.run.told = a
	switch a {
	case Stop:
		l.end(t, Pruned, rule)
	case Complete:
		l.end(t, Completed, rule)
	case Pause:
		l.view.setState(t, Paused)
		t.Rule = rule
	case Exploit:
		l.exploit(t, rule, donor, p)
		l.enqueue(t)
	}
}

// order carries out an order for a trial that did not report.
func (l *ledger) order(t *Trial, o TrialDecision) {
	switch t.State {
	case Running:
		if t.run.order = nil; o.Action != GoOn {
			t.run.order = &o
		}
	case Paused, Pending:
		switch o.Action {
		case Stop:
			l.end(t, Pruned, o.Rule)
		case Complete:
			l.end(t, Completed, o.Rule)
		case Pause:
			l.queue.remove(t.Number)
			l.view.setState(t, Paused)
			t.Rule = o.Rule
		case GoOn:
			t.Rule = o.Rule
			l.enqueue(t)
		case Exploit:
			l.exploit(t, o.Rule, o.Donor, o.Params)
		}
	}
}

// exploit makes t continue from the donor's newest checkpoint when it next starts. Reports of t
// beyond that step are no longer part of its history.
func (l *ledger) exploit(t *Trial, rule string, donor int, p Params) {
	restore := checkpoints.None(t.Number)
	// An earlier order of the same decision may have taken the donor's checkpoints.
	if kept := l.view.trials[donor].Checkpoints; len(kept) > 0 {
		restore = kept[len(kept)-1].name(donor)
	}
	from := restore.Step
	at := -1
	if last, ok := t.LastStep(); ok {
		at = last
	}
	t.Changes = append(t.Changes, Change{Step: at, Donor: donor, DonorStep: from, Before: t.Params})
	t.Params, t.Rule = p, rule
	t.run.restore, t.run.changed = restore, true
	l.storage.outdate(t)
	t.Checkpoints = nil
	n, _ := t.find(from + 1)
	t.Reports = t.Reports[:n:n]
	t.Best = -1
	for i := range t.Reports {
		if r := &t.Reports[i]; r.judged() && isFinite(r.Value) && (t.Best < 0 || l.view.goals.outranks(r, &t.Reports[t.Best])) {
			t.Best = i
		}
	}
	l.view.noteBest(t, true)
}

// elsewhere is the decision about a report of a trial that was run elsewhere: it was made there.
func elsewhere(d Decision) Decision {
	plain := Go()
	if d.Action == Stop {
		plain.Action, plain.Rule = Stop, d.Rule
	}
	return plain
}
