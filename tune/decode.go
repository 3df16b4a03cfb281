package tune

import (
	"fmt"
	"time"

	"github.com/paragon-train/paragon/tune/internal/jsonline"
)

// scanEvent reads a line without its sum.
func scanEvent(d *jsonline.Scanner) (Event, error) {
	var e Event
	d.Want(`{"seq":`)
	e.Seq = d.Uint()
	d.Want(`,"time":"`)
	e.Time = d.Time()
	d.Want(`","at":`)
	e.At = time.Duration(d.Int())
	d.Want(`,"kind":`)
	e.Kind = EventKind(d.Name())
	scanFields(d, &e)
	if d.More() {
		d.Fail("more than the event's fields")
	}
	if err := d.Err(); err != nil {
		return Event{}, err
	}
	return e, nil
}

// scanFields reads what the event's kind has, and nothing else. It is the mirror of appendEvent's
// switch.
func scanFields(d *jsonline.Scanner, e *Event) {
	switch e.Kind {
	case EventStudy:
		e.Header = scanHeader(d)
		e.Rules = scanRules(d)
	case EventOpen:
		e.Rules = scanRules(d)
	case EventExhausted:
		e.Rule = d.Text(`,"rule":`)
	case EventStart:
		scanStart(d, e)
	case EventReport:
		scanOf(d, e)
		d.Want(`,"step":`)
		e.Step = d.Int()
		e.Metrics = scanMetrics(d)
		if e.Kept = d.Has(`,"kept":`); e.Kept {
			e.Bytes = int64(d.Int())
		}
		e.Decision = scanDecision(d)
	case EventCheckpoint, EventDrop:
		scanOf(d, e)
		d.Want(`,"step":`)
		e.Step = d.Int()
		d.Want(`,"bytes":`)
		e.Bytes = int64(d.Int())
	case EventEnd:
		scanOf(d, e)
		e.Outcome = Outcome(d.Text(`,"outcome":`))
		e.Failure = Failure(d.Text(`,"failure":`))
		e.Error = d.Text(`,"error":`)
		e.Retry = d.Has(`,"retry":true`)
	case EventHalt:
		e.Rule = d.Text(`,"rule":`)
		e.Error = d.Text(`,"error":`)
	case EventAllocate:
		scanAllocation(d, e)
	case EventRequeue, EventAbandon:
		d.Want(`,"trials":`)
		e.Trials = d.Ints()
		e.Fresh = d.Has(`,"fresh":true`)
		e.Rule = d.Text(`,"rule":`)
	default:
		d.Fail(fmt.Sprintf("kind %q is unknown", e.Kind))
	}
}

// scanOf reads which attempt an event is of.
func scanOf(d *jsonline.Scanner, e *Event) {
	d.Want(`,"trial":`)
	e.Trial = d.Int()
	d.Want(`,"attempt":`)
	e.Attempt = d.Int()
}

// scanStart reads a start. Only the first of a trial has an origin, by which it is told from the
// others.
func scanStart(d *jsonline.Scanner, e *Event) {
	scanOf(d, e)
	if e.Origin = Origin(d.Text(`,"origin":`)); e.Origin != "" {
		e.New = true
	} else {
		d.Want(`,"donor":`)
		e.Donor = d.Int()
		d.Want(`,"restore":`)
		e.Restore = d.Int()
		d.Want(`,"of":`)
		e.RestoreOf = d.Int()
	}
	if e.New {
		d.Want(`,"params":`)
		e.Params = scanParams(d)
	} else if d.Has(`,"params":`) {
		if e.Params = scanParams(d); e.Params.Len() == 0 {
			d.Fail("empty parameters")
		}
	}
	e.Rule = d.Text(`,"rule":`)
	e.Location = d.Text(`,"location":`)
}

// scanHeader reads the header of a study.
func scanHeader(d *jsonline.Scanner) *Header {
	h := &Header{}
	d.Want(`,"version":`)
	h.Version = d.Int()
	d.Want(`,"name":`)
	h.Name = d.String()
	h.Metric = d.Text(`,"metric":`)
	d.Want(`,"mode":`)
	mode := d.String()
	m, err := ParseMode(mode)
	if err != nil || mode == "" {
		d.Fail("no such mode")
	}
	h.Mode = m
	d.Want(`,"seed":`)
	h.Seed = d.Uint()
	d.Want(`,"space":[`)
	for !d.Has("]") && d.Err() == nil {
		if len(h.Space) > 0 {
			d.Want(",")
		}
		h.Space = append(h.Space, d.String())
	}
	h.Suggester = d.Text(`,"suggester":`)
	h.Scheduler = d.Text(`,"scheduler":`)
	h.Objectives = d.Texts(`,"objectives":`)
	h.Constraints = d.Texts(`,"constraints":`)
	return h
}

// scanMetrics reads the metrics of a report, which are sorted.
func scanMetrics(d *jsonline.Scanner) Metrics {
	d.Want(`,"metrics":{`)
	m := make(Metrics, 0, 2)
	for !d.Has("}") && d.Err() == nil {
		if len(m) > 0 {
			d.Want(",")
		}
		name := d.Name()
		d.Want(":")
		if len(m) > 0 && m[len(m)-1].Name >= name {
			d.Fail("metrics are not sorted")
		}
		m = append(m, Metric{name, d.Number()})
	}
	return m
}

// scanDecision reads a decision; none is Go.
func scanDecision(d *jsonline.Scanner) Decision {
	x := Go()
	if !d.Has(`,"decision":{"action":`) {
		return x
	}
	x.Action = Action(d.Name())
	x.Rule = d.Text(`,"rule":`)
	if d.Has(`,"rung":`) {
		x.Rung = d.Nonzero()
	}
	if d.Has(`,"value":`) {
		x.Value = d.NotNaN()
	}
	if d.Has(`,"cutoff":`) {
		x.Cutoff = d.NotNaN()
	}
	if d.Has(`,"competitors":`) {
		if x.Competitors = d.Ints(); len(x.Competitors) == 0 {
			d.Fail("empty competitors")
		}
	}
	x.Forecast = scanForecast(d)
	x.Donor, x.Params = scanDonor(d, x.Action)
	if d.Has(`,"others":[`) {
		for d.Err() == nil {
			var o TrialDecision
			d.Want(`{"trial":`)
			o.Trial = d.Int()
			d.Want(`,"action":`)
			o.Action = Action(d.Name())
			o.Rule = d.Text(`,"rule":`)
			o.Donor, o.Params = scanDonor(d, o.Action)
			d.Want("}")
			x.Others = append(x.Others, o)
			if d.Has("]") {
				break
			}
			d.Want(",")
		}
	}
	d.Want("}")
	if x.Action == "" || x.plain() {
		d.Fail("a decision that says nothing")
	}
	return x
}

// scanDonor reads what an exploit takes over.
func scanDonor(d *jsonline.Scanner, a Action) (int, Params) {
	if a != Exploit {
		return 0, Params{}
	}
	d.Want(`,"donor":`)
	n := d.Int()
	d.Want(`,"params":`)
	return n, scanParams(d)
}
