package tune

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// Tell reports metrics of a trial at a step, and returns the decision when it is on disk. Steps
// increase. Telling a step again changes nothing and returns the same decision, or Continue if an
// earlier attempt reported it. With Config.Fidelity the newest report of a run is its result: the
// decision about it is made at Finish, and Tell returns Continue. After any decision but Continue,
// end the attempt and call Finish.
func (s *Study) Tell(trial, step int, metrics map[string]float64) (Decision, error) {
	return s.tell(trial, 0, step, metrics)
}

// tell is Tell of an attempt; 0 is the one that runs.
func (s *Study) tell(trial, attempt, step int, metrics map[string]float64) (Decision, error) {
	m := MetricsOf(metrics)
	s.rec.mu.Lock()
	d, seq, err := s.report(trial, attempt, step, m)
	s.rec.mu.Unlock()
	if err != nil {
		return Decision{}, err
	}
	if err := s.rec.awaitWritten(seq); err != nil {
		return Decision{}, err
	}
	return d, nil
}

// report applies a report and returns what was decided and the event to wait for. The study's mutex is held.
func (s *Study) report(number, attempt, step int, m Metrics) (Decision, uint64, error) {
	if err := s.rec.broken(); err != nil {
		return Decision{}, 0, err
	}
	t := s.l.view.Trial(number)
	if t == nil {
		return Decision{}, 0, fmt.Errorf("tune: trial %d step %d: there are only trials 0 to %d", number, step, len(s.l.view.trials)-1)
	}
	newest := s.rec.newest()
	if d, ok := toldBefore(t, attempt); ok {
		return d, newest, nil
	}
	if step < 0 {
		return Decision{}, 0, fmt.Errorf("tune: trial %d step %d: want a step of 0 or more", number, step)
	}
	if s.cfg.Fidelity != nil {
		if err := s.checkMetrics(t, step, m); err != nil {
			return Decision{}, 0, err
		}
		s.note(number, m)
		return Go(), newest, nil
	}
	if last, ok := t.LastStep(); ok && step <= last {
		seq, err := t.reportedBefore(step, last)
		return Go(), max(seq, newest), err
	}
	if err := s.checkMetrics(t, step, m); err != nil {
		return Decision{}, 0, err
	}
	e := Event{Kind: EventReport, Trial: number, Attempt: t.Attempts, Step: step, Metrics: m}
	if err := s.checkpoints.addTo(&e); err != nil {
		return Decision{}, 0, err
	}
	if err := s.rec.emit(&e, func() error { return s.l.judge(&e) }); err != nil {
		return Decision{}, 0, err
	}
	s.rec.haltIfOver(&e)
	d := e.Decision
	if d.Action == Continue && t.run.told != "" {
		d.Action, d.Rule = t.run.told, t.Rule
	}
	s.checkpoints.collect()
	return d, s.rec.newest(), nil
}

// toldBefore is the answer to an attempt that was told to end, or has ended; attempt 0 is the one
// that runs.
func toldBefore(t *Trial, attempt int) (Decision, bool) {
	d := Go()
	switch {
	case !t.run.active || attempt != 0 && attempt != t.Attempts:
		d.Action, d.Rule = Stop, "its attempt is over"
		return d, true
	case t.run.told != "":
		d.Action, d.Rule = t.run.told, t.Rule
		return d, true
	}
	return d, false
}

// reportedBefore is the event of a step that was reported, by this attempt or another; 0: an
// earlier attempt has passed it without a report. It is an error if this attempt has.
func (t *Trial) reportedBefore(step, last int) (seq uint64, err error) {
	r, ok := t.AtStep(step)
	switch {
	case ok:
		return r.Seq, nil
	case t.Reports[len(t.Reports)-1].Attempt == t.Attempts:
		return 0, fmt.Errorf("tune: trial %d step %d: want steps to increase: the one before was %d", t.Number, step, last)
	}
	return 0, nil
}

// checkMetrics says what is wrong with a report before it is one. The study's mutex is held.
func (s *Study) checkMetrics(t *Trial, step int, m Metrics) error {
	where := fmt.Sprintf("tune: trial %d step %d", t.Number, step)
	if err := validMetrics(m); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if s.l.view.goals.metric == "" {
		if _, _, err := s.l.view.goals.choice(m); err != nil {
			s.rec.fail(err)
			return err
		}
		return nil
	}
	missing := s.l.view.goals.metric
	if _, ok := m.Get(missing); ok {
		missing = s.l.view.goals.lacks(m)
	}
	if missing == "" || t.hasResult() {
		return nil
	}
	err := fmt.Errorf("%s: metric %q was not reported, but %s: %w", where, missing, orNone(m.Names()), ErrNoMetric)
	// No report ever had the metric, so its name is wrong: each trial would fail.
	if !s.l.judged {
		s.rec.fail(err)
	}
	return err
}

// Finish ends the attempt of a trial. err is nil if the training is complete, has ErrStop or
// ErrPause in its chain if the attempt was asked to end, and is else its failure, with a class from
// Fail.
func (s *Study) Finish(trial int, err error) error {
	return s.finish(trial, 0, Returned, err)
}

// Interrupt ends the attempt of a trial that was interrupted and must run again.
func (s *Study) Interrupt(trial int) error {
	return s.finish(trial, 0, Interrupted, nil)
}

// finish ends an attempt, 0: the one that runs. It does nothing for one that was given up before.
func (s *Study) finish(number, attempt int, outcome Outcome, cause error) error {
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	if err := s.rec.broken(); err != nil && s.rec.journal.Broken() != nil {
		return err
	}
	t := s.l.view.Trial(number)
	if t == nil {
		return fmt.Errorf("tune: finish trial %d: there are only trials 0 to %d", number, len(s.l.view.trials)-1)
	}
	if !t.run.active || attempt != 0 && attempt != t.Attempts {
		// The attempt was given up before.
		return nil
	}
	s.checkpoints.folder.Ended(number)
	e := Event{Kind: EventEnd, Trial: number, Attempt: t.Attempts, Outcome: outcome}
	if cause != nil && outcome != Interrupted && !errors.Is(cause, ErrStop) && !errors.Is(cause, ErrPause) {
		e.Outcome, e.Failure, e.Error = Broke, classOf(cause), clip(unclassed(cause))
	}
	if s.cfg.Fidelity != nil && e.Outcome == Returned && cause == nil {
		if err := s.reportNoted(t); err != nil {
			return err
		}
	}
	err := s.rec.emit(&e, func() error {
		s.l.judgeEnd(&e)
		return s.l.finish(&e)
	})
	if err != nil {
		return err
	}
	s.rec.haltIfOver(&e)
	s.checkpoints.collect()
	if n := s.cfg.MaxFailed; n > 0 && s.l.view.counts[Failed] >= n {
		s.rec.fail(fmt.Errorf("tune: study %s: %d trials have failed, the newest trial %d: %s: %s", s.cfg.Name, s.l.view.counts[Failed], number, t.Failure, firstLine(t.Error)))
	}
	if n := cmp.Or(s.cfg.FirstFailures, defaultFirstFailures); n > 0 && s.l.view.counts[Failed] >= n && !s.l.judged && t.State == Failed && t.Failure.ofProgram() {
		s.rec.fail(fmt.Errorf("tune: study %s: the first %d trials have failed, and none has reported; the newest, trial %d: %s; fix the command or function of the trials, or set FirstFailures (first_failures in a file) to -1 to go on",
			s.cfg.Name, s.l.view.counts[Failed], number, firstLine(t.Error)))
	}
	return nil
}

// answer is what a trial gets for a decision: nil to go on, else an error to return with.
func answer(trial, step int, d Decision) error {
	rule := d.Reason()
	if rule == "" {
		rule = string(d.Action)
	}
	if d.Forecast == nil && !math.IsNaN(d.Cutoff) && !math.IsNaN(d.Value) {
		rule += fmt.Sprintf(" (%.6g against %.6g)", d.Value, d.Cutoff)
	}
	switch d.Action {
	case Stop, Complete:
		return fmt.Errorf("tune: trial %d step %d: %s: %w", trial, step, rule, ErrStop)
	case Pause, Exploit:
		return fmt.Errorf("tune: trial %d step %d: %s: %w", trial, step, rule, ErrPause)
	default:
		return nil
	}
}

// note keeps what a run reported until it ends: its last report with all of the study's metrics is
// its result. The study's mutex is held.
func (s *Study) note(number int, m Metrics) {
	if _, ok := m.Get(s.l.view.goals.metric); (ok || s.l.view.goals.metric == "") && s.l.view.goals.lacks(m) == "" {
		s.noted[number] = m
	}
}

// reportNoted reports the result of a run at one fidelity, which has ended. The study's mutex is held.
func (s *Study) reportNoted(t *Trial) error {
	m, ok := s.noted[t.Number]
	delete(s.noted, t.Number)
	if !ok || t.run.told != "" {
		return nil
	}
	level, _ := s.cfg.Fidelity.level(t)
	e := Event{Kind: EventReport, Trial: t.Number, Attempt: t.Attempts, Step: s.cfg.Fidelity.Step(level), Metrics: m}
	return s.rec.emit(&e, func() error { return s.l.judge(&e) })
}
