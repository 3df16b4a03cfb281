package show

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/jobs"
)

// maxCompetitors is how many of the trials that a decision compared with are named.
const maxCompetitors = 12

// Why writes the history of one trial from the log's events: the origin of its parameters, each
// decision with its rule, the value, the cutoff and the trials it was compared with, and its end.
func Why(w io.Writer, events []tune.Event, trial int) error {
	x := explainer{trial: trial, value: make(map[int]float64)}
	for _, e := range events {
		x.event(e)
	}
	if x.lines == nil {
		return fmt.Errorf("show: why %d: the log has no such trial; it has %s", trial, plural.Of(x.trials, "trial"))
	}
	_, err := io.WriteString(w, strings.Join(x.lines, "\n")+"\n")
	return err
}

// An explainer gathers what events say about one trial.
type explainer struct {
	trial  int
	metric string
	// trials counts all trials of the log.
	trials int
	// value has by trial its newest value.
	value map[int]float64
	// levels has by step the values of each trial there; nil: steps are no fidelities.
	levels map[int]map[int]float64
	// has are the replicas of a trial that is an elastic job.
	has jobs.Placement
	// fixed says why its replicas cannot change; "": they can.
	fixed string
	// lines are what was said so far; nil: the trial has not started.
	lines []string
}

// say adds a line with the time of an event.
func (x *explainer) say(e tune.Event, format string, args ...any) {
	x.lines = append(x.lines, fmt.Sprintf("%10s  ", e.At.Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// event takes the next event of the log. Those of other trials count for what a decision compared
// the trial with.
func (x *explainer) event(e tune.Event) {
	switch e.Kind {
	case tune.EventStudy:
		if e.Header != nil {
			x.metric = e.Header.Metric
			if e.Header.Fidelity() != "" {
				x.levels = make(map[int]map[int]float64)
			}
		}
	case tune.EventHalt:
		if x.lines != nil {
			x.say(e, "the study was ended: %s", e.Rule)
		}
	case tune.EventAbandon:
		if slices.Contains(e.Trials, x.trial) {
			x.say(e, "not continued: %s", e.Rule)
		}
	case tune.EventRequeue:
		for _, t := range e.Trials {
			if t == x.trial {
				x.say(e, "taken up again%s", map[bool]string{true: ", from the start", false: ""}[e.Fresh])
			}
		}
	case tune.EventStart:
		if e.New {
			x.trials++
		}
		if e.Trial == x.trial {
			x.start(e)
		}
	case tune.EventReport:
		x.report(e)
	case tune.EventAllocate:
		x.allocated(e)
	case tune.EventEnd:
		if e.Trial == x.trial {
			x.end(e)
		}
	}
}

// start tells of an attempt: where it runs, and where its parameters are from.
func (x *explainer) start(e tune.Event) {
	x.has = nil
	where := ""
	if e.Location != "" {
		where = " on " + e.Location
	}
	because := ""
	if e.Rule != "" {
		because = "; " + e.Rule
	}
	if e.New {
		from := map[tune.Origin]string{
			tune.FromPoint:     "one of the points to be tried first",
			tune.FromDefault:   "the defaults of the space",
			tune.FromSuggester: "proposed by the suggester",
			tune.FromElsewhere: "run elsewhere, and added",
		}[e.Origin]
		x.say(e, "trial %d started%s with %s: %s%s", e.Trial, where, paramText(e.Params), from, because)
		return
	}
	x.say(e, "attempt %d started%s%s%s", e.Attempt, where, continuation(e), because)
}

// report tells what was decided about a report, or by one about the trial.
func (x *explainer) report(e tune.Event) {
	metric := x.metric
	if metric == "" && len(e.Metrics) == 1 {
		metric = e.Metrics[0].Name
	}
	value, ok := e.Metrics.Get(metric)
	if ok {
		x.value[e.Trial] = value
		if at := x.levels[e.Step]; at != nil {
			at[e.Trial] = value
		} else if x.levels != nil {
			x.levels[e.Step] = map[int]float64{e.Trial: value}
		}
	}
	d := e.Decision
	if e.Trial != x.trial {
		for _, o := range d.Others {
			if o.Trial == x.trial {
				x.say(e, "ordered by the report of trial %d: %s%s", e.Trial, o.Action, because(o.Rule))
			}
		}
		return
	}
	told := strings.TrimSpace(fmt.Sprintf("step %d: %s %s", e.Step, metric, valueText(value)))
	if !ok {
		told = fmt.Sprintf("step %d: no %s", e.Step, metric)
	}
	action := d.Action
	if action == "" {
		action = tune.Continue
	}
	if action == tune.Continue && d.Rule == "" {
		// Nothing was decided.
		return
	}
	x.say(e, "%s: %s%s%s", told, action, because(d.Reason()), x.against(d, e.Step))
}

// because is a rule in brackets, or nothing.
func because(rule string) string {
	if rule == "" {
		return ""
	}
	return " (" + rule + ")"
}

// against says what a value was held against. At a fidelity the others' values are those at the
// same one.
func (x *explainer) against(d tune.Decision, step int) string {
	var b strings.Builder
	if d.Forecast != nil {
		// The forecast says what the trial was compared with.
		return ""
	}
	if !math.IsNaN(d.Cutoff) && (d.Cutoff != 0 || d.Value != 0) {
		fmt.Fprintf(&b, "; its value %s against a cut-off of %s", valueText(d.Value), valueText(d.Cutoff))
	}
	if len(d.Competitors) > 0 {
		named := d.Competitors[:min(len(d.Competitors), maxCompetitors)]
		list := make([]string, len(named))
		for i, t := range named {
			list[i] = fmt.Sprint(t)
			v, ok := x.value[t]
			if x.levels != nil {
				v, ok = x.levels[step][t]
			}
			if ok {
				list[i] += " (" + valueText(v) + ")"
			}
		}
		at := ""
		if x.levels != nil {
			at = fmt.Sprintf(" at step %d", step)
		}
		fmt.Fprintf(&b, "; among trials%s %s", at, strings.Join(list, ", "))
		if more := len(d.Competitors) - len(named); more > 0 {
			fmt.Fprintf(&b, " and %d more", more)
		}
	}
	if d.Action == tune.Exploit {
		fmt.Fprintf(&b, "; goes on from trial %d", d.Donor)
		if d.Params.Len() > 0 {
			b.WriteString(" with " + paramText(d.Params))
		}
	}
	return b.String()
}

// end tells how an attempt ended, and whether another one follows.
func (x *explainer) end(e tune.Event) {
	text := fmt.Sprintf("attempt %d %s", e.Attempt, e.Outcome)
	if e.Outcome == tune.Obeyed {
		text = fmt.Sprintf("attempt %d ended as told", e.Attempt)
	}
	if e.Outcome == tune.Broke {
		text += fmt.Sprintf(" (%s): %s", e.Failure, firstLine(e.Error))
		if e.Retry {
			text += "; within its budget of further tries"
		} else {
			text += "; no further try"
		}
	}
	x.say(e, "%s", text)
}

// allocated says what a division of the nodes changed for the trial that is explained.
func (x *explainer) allocated(e tune.Event) {
	for i, s := range e.Shares {
		if s.Trial != x.trial {
			continue
		}
		had := x.has
		switch {
		case s.Pause:
			x.say(e, "to give up its %s at its next report: %s; decided because %s", plural.Of(had.Replicas(), "replica"), s.Rule, e.Rule)
			return
		case s.On.String() == had.String() && s.Rule == "":
		case s.On.String() == had.String():
			x.say(e, "keeps %s: %s; decided because %s", replicasText(s.On), s.Rule, e.Rule)
		case s.Rule == "":
			// The decision before was not carried out: the trial has other replicas
			// than it was given.
			x.say(e, "%s in place of %s; decided because %s", replicasText(s.On), replicasText(had), e.Rule)
		default:
			x.say(e, "%s in place of %s: %s; decided because %s", replicasText(s.On), replicasText(had), s.Rule, e.Rule)
		}
		if why := e.Jobs[i].Fixed; why != "" && why != x.fixed {
			x.say(e, "its replicas cannot change: %s", why)
			x.fixed = why
		}
		x.has = s.On
	}
}
