package tune

import (
	"cmp"
	"math"

	"github.com/paragon-train/paragon/internal/observe/page"
	"github.com/paragon-train/paragon/tune/internal/searchpage"
)

// maxNoteCompetitors is how many of the trials that a decision compared with a note names.
const maxNoteCompetitors = 12

// maxNoteText bounds a rule and a cause in a note, in bytes.
const maxNoteText = 1000

// A pageObserver tells a page what happens in a study.
type pageObserver struct {
	cfg   *Config
	notes *searchpage.Notes
}

// Observe implements Observer. The study waits for it.
func (p *pageObserver) Observe(v View, e Event) { p.note(v, &e) }

// note takes note of an event. The study's mu is held, or it does not run yet and is read from its
// log.
func (p *pageObserver) note(v View, e *Event) {
	n := newNote(e)
	switch e.Kind {
	case EventOpen, EventHalt:
		p.notes.AllChanged()
	case EventStart:
		n.Kind, n.Location, n.Restore, n.Donor = "start", e.Location, e.Restore, e.Donor
		if e.New {
			n.Restore = -1
		}
		p.notes.Start(e.Trial, n)
	case EventReport:
		p.noteReport(v, e, n)
	case EventEnd:
		n.Kind, n.Outcome, n.Failure, n.Error, n.Retry = "end", string(e.Outcome), string(e.Failure), page.Clip(e.Error, maxNoteText), e.Retry
		p.notes.Add(e.Trial, n)
	case EventRequeue, EventAbandon:
		n.Kind, n.Fresh, n.Action = string(e.Kind), e.Fresh, string(e.Kind)
		for _, t := range e.Trials {
			p.notes.Add(t, n)
		}
	case EventAllocate:
		n.Kind = "replicas"
		for _, x := range e.Shares {
			n.Location, n.Rule, n.Action = x.On.String(), page.Clip(x.Rule, maxNoteText), ""
			if x.Pause {
				n.Action = string(Pause)
			}
			p.notes.Replicas(x.Trial, n)
		}
	}
}

// newNote is a note of an event, without a kind.
func newNote(e *Event) page.SearchNote {
	none := page.Precise(math.NaN())
	return page.SearchNote{At: page.Precise(e.At.Seconds()), Attempt: e.Attempt, Rule: page.Clip(e.Rule, maxNoteText), Value: none, Bound: none}
}

// noteReport takes note of a report and of what was decided.
func (p *pageObserver) noteReport(v View, e *Event, n page.SearchNote) {
	p.notes.Changed(e.Trial)
	if value, ok := e.Metrics.Get(v.Metric()); ok && e.Step >= p.cfg.topStep() && violation(v.Constraints(), e.Metrics) == 0 {
		p.notes.Value(e.Trial, n.At, value, v.Score(value))
	}
	d := &e.Decision
	if action := cmp.Or(d.Action, Continue); action != Continue || d.Rule != "" {
		n, mark := decisionNote(v, e, n)
		if action == Continue {
			p.notes.Add(e.Trial, n)
		} else {
			p.notes.Stop(e.Trial, n, mark)
		}
	}
	for _, o := range d.Others {
		x := newNote(e)
		x.Attempt, x.Kind, x.Action, x.Rule, x.By, x.Donor = 0, "order", string(o.Action), page.Clip(o.Rule, maxNoteText), e.Trial, o.Donor
		p.notes.Add(o.Trial, x)
	}
}

// decisionNote is the note of a decision about a report, and how the trial's row shows the decision
// if it ends the attempt. The reason of a decision by a forecast has the values itself.
func decisionNote(v View, e *Event, n page.SearchNote) (note, mark page.SearchNote) {
	d := &e.Decision
	n.Kind, n.Step, n.Action, n.Rule, n.Donor = "decision", e.Step, string(cmp.Or(d.Action, Continue)), page.Clip(d.Reason(), maxNoteText), d.Donor
	if n.Value = page.Precise(d.Value); math.IsNaN(d.Value) {
		x, _ := e.Metrics.Get(v.Metric())
		n.Value = page.Precise(x)
	}
	if d.Forecast != nil {
		mark = n
		mark.Value = page.Precise(math.NaN())
		return n, mark
	}
	// An empty Decision has zeros, and compares nothing.
	if !math.IsNaN(d.Cutoff) && (d.Cutoff != 0 || d.Value != 0) {
		n.Bound = page.Precise(d.Cutoff)
	}
	n.Competitors = d.Competitors[:min(len(d.Competitors), maxNoteCompetitors)]
	n.More = len(d.Competitors) - len(n.Competitors)
	return n, n
}
