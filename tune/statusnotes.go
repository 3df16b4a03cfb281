package tune

import (
	"cmp"
	"math"

	"github.com/paragon-train/paragon/internal/observe/page"
)

// maxNoteCompetitors is how many of the trials that a decision compared with a note names.
const maxNoteCompetitors = 12

// maxNoteText bounds a rule and a cause in a note, in bytes.
const maxNoteText = 1000

// Observe implements Observer. The study waits for it.
func (p *statusPage) Observe(v View, e Event) { p.note(v, &e) }

// note takes note of an event. The study's mu is held, or it does not run yet and is read from its
// log. A nil page takes none.
func (p *statusPage) note(v View, e *Event) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := page.SearchNote{At: page.Precise(e.At.Seconds()), Attempt: e.Attempt, Rule: page.Clip(e.Rule, maxNoteText), Value: page.Precise(math.NaN()), Bound: page.Precise(math.NaN())}
	switch e.Kind {
	case EventOpen, EventHalt:
		p.begun = false // any number of trials may have changed
	case EventStart:
		n.Kind, n.Location, n.Restore, n.Donor = "start", e.Location, e.Restore, e.Donor
		if e.New {
			n.Restore = -1
		}
		h := p.add(e.Trial, n)
		h.stop, h.replicas = nil, ""
	case EventReport:
		p.noteReport(v, e, n)
	case EventEnd:
		n.Kind, n.Outcome, n.Failure, n.Error, n.Retry = "end", string(e.Outcome), string(e.Failure), page.Clip(e.Error, maxNoteText), e.Retry
		p.add(e.Trial, n)
	case EventRequeue, EventAbandon:
		n.Kind, n.Fresh, n.Action = string(e.Kind), e.Fresh, string(e.Kind)
		for _, t := range e.Trials {
			p.add(t, n)
		}
	case EventAllocate:
		n.Kind = "replicas"
		for _, x := range e.Shares {
			p.changed[x.Trial] = true
			n.Location, n.Rule, n.Action = x.On.String(), page.Clip(x.Rule, maxNoteText), ""
			if x.Pause {
				n.Action = string(Pause)
			}
			if h := p.history[x.Trial]; h == nil || h.replicas != n.Location+n.Action {
				p.add(x.Trial, n).replicas = n.Location + n.Action
			}
		}
	}
}

// noteReport takes note of a report and of what was decided. mu is held.
func (p *statusPage) noteReport(v View, e *Event, n page.SearchNote) {
	p.changed[e.Trial] = true
	if value, ok := e.Metrics.Get(v.Metric()); ok && e.Step >= p.cfg.topStep() && v.Score(value) > v.Score(p.best) && violation(v.Constraints(), e.Metrics) == 0 {
		p.best = value
		p.progress.At = append(p.progress.At, n.At)
		p.progress.Value = append(p.progress.Value, page.Precise(value))
		p.progress.Trial = append(p.progress.Trial, e.Trial)
	}
	d := &e.Decision
	if action := cmp.Or(d.Action, Continue); action != Continue || d.Rule != "" {
		n.Kind, n.Step, n.Action, n.Rule, n.Donor = "decision", e.Step, string(action), page.Clip(d.Reason(), maxNoteText), d.Donor
		if n.Value = page.Precise(d.Value); math.IsNaN(d.Value) {
			x, _ := e.Metrics.Get(v.Metric())
			n.Value = page.Precise(x)
		}
		if !math.IsNaN(d.Cutoff) && (d.Cutoff != 0 || d.Value != 0) { // an empty Decision has zeros
			n.Bound = page.Precise(d.Cutoff)
		}
		n.Competitors = d.Competitors[:min(len(d.Competitors), maxNoteCompetitors)]
		n.More = len(d.Competitors) - len(n.Competitors)
		if d.Forecast != nil { // the reason has these
			n.Bound, n.Competitors, n.More = page.Precise(math.NaN()), nil, 0
		}
		h := p.add(e.Trial, n)
		if action != Continue {
			stop := n
			if d.Forecast != nil {
				stop.Value = page.Precise(math.NaN())
			}
			h.stop = &stop
		}
	}
	for _, o := range d.Others {
		p.add(o.Trial, page.SearchNote{At: n.At, Kind: "order", Action: string(o.Action), Rule: page.Clip(o.Rule, maxNoteText), By: e.Trial, Donor: o.Donor, Value: page.Precise(math.NaN()), Bound: page.Precise(math.NaN())})
	}
}

// add adds a note to a trial, which has changed. mu is held.
func (p *statusPage) add(trial int, n page.SearchNote) *trialHistory {
	p.changed[trial] = true
	h := p.history[trial]
	if h == nil {
		h = &trialHistory{}
		p.history[trial] = h
	}
	if len(h.notes) == maxNotes {
		h.notes = append(h.notes[:0], h.notes[maxNotes/2:]...)
		h.earlier += maxNotes / 2
	}
	h.notes = append(h.notes, n)
	return h
}
