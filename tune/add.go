package tune

import "fmt"

// AddTrial adds a trial that was run elsewhere, and returns its number. Of t count Params; State,
// which is Completed, Pruned or Failed; the Step and Metrics of each of Reports, steps increasing;
// and Error of a failed one. All but a failed trial need a report with the metrics of the
// objectives and constraints.
//
// The trial counts as one of Config.Samples, and suggesters learn from it. Schedulers and pruners
// do not judge its reports. It takes the next number, which must not be that of a point, of the
// defaults, or of a point of the grid.
func (s *Study) AddTrial(t Trial) (int, error) {
	s.rec.mu.Lock()
	number, err := s.addTrial(t)
	seq := s.rec.newest()
	s.rec.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return number, s.rec.awaitWritten(seq)
}

// addTrial is AddTrial. The study's mutex is held.
func (s *Study) addTrial(t Trial) (int, error) {
	number := len(s.l.view.trials)
	if err := s.rec.broken(); err != nil {
		return 0, err
	}
	params, err := s.l.view.checkAdded(number, t)
	if err != nil {
		return 0, fmt.Errorf("tune: add trial %d: %w", number, err)
	}
	start := Event{Kind: EventStart, New: true, Trial: number, Attempt: 1, Params: params, Origin: FromElsewhere}
	if err := s.rec.emit(&start, func() error { return s.l.begin(&start) }); err != nil {
		return 0, err
	}
	for i, r := range t.Reports {
		e := Event{Kind: EventReport, Trial: number, Attempt: 1, Step: r.Step, Metrics: r.Metrics, Decision: Go()}
		if i == len(t.Reports)-1 && t.State == Pruned {
			e.Decision.Action, e.Decision.Rule = Stop, "pruned elsewhere"
		}
		if err := s.rec.emit(&e, func() error { return s.l.judge(&e) }); err != nil {
			return 0, err
		}
	}
	end := Event{Kind: EventEnd, Trial: number, Attempt: 1, Outcome: Returned}
	if t.State == Failed {
		end.Outcome, end.Failure, end.Error = Broke, UserCode, clip(t.Error)
	}
	return number, s.rec.emit(&end, func() error {
		s.l.judgeEnd(&end)
		return s.l.finish(&end)
	})
}

// checkAdded says why a trial that was run elsewhere cannot be added with a number, and returns its
// full parameters.
func (v *standings) checkAdded(number int, t Trial) (Params, error) {
	if fixed, origin := v.plan.fixed(number); origin != FromSuggester || fixed.Len() > 0 {
		return Params{}, fmt.Errorf("the study has points, defaults or a grid to try (%v): add trials to a study without them", fixed)
	}
	if v.cfg.Fidelity != nil {
		return Params{}, fmt.Errorf("the study has a Fidelity, whose levels are its steps: add trials to a study without one")
	}
	if t.State != Completed && t.State != Pruned && t.State != Failed {
		return Params{}, fmt.Errorf("its state is %q, want %s, %s or %s", t.State, Completed, Pruned, Failed)
	}
	params, err := v.cfg.Space.Fill(t.Params, func(p Param, _ Params) (any, error) {
		return nil, fmt.Errorf("parameter %q is missing: there are %v", p.Name, t.Params)
	})
	if err != nil {
		return Params{}, err
	}
	judged, err := v.goals.check(t.Reports)
	if err == nil && !judged && t.State != Failed {
		err = fmt.Errorf("no report has %s: want one with the metrics of all objectives and constraints: %w", orNone(v.goals.names()), ErrNoMetric)
	}
	return params, err
}
