package worker

import (
	"time"

	"github.com/paragon-train/paragon/metrics"
)

// An epochRun collects the statistics of the current epoch.
type epochRun struct {
	info EpochInfo
	mean metrics.Mean
	// span is the one under way, which began at from.
	span Span
	from time.Time
	// begin is when the epoch began in this run, and evaluating the time of evaluations within
	// it.
	begin      time.Time
	evaluating time.Duration
}

// openSpan begins a span.
func (e *epochRun) openSpan(s Span) { e.span, e.from = s, time.Now() }

// closeSpan ends the current span and begins the next. goesOn says that a pass over the data may
// have ended between two spans of an epoch, which are then one if nothing else has changed.
func (e *epochRun) closeSpan(next Span, goesOn bool) Span {
	span := e.span
	span.Train = time.Since(e.from)
	if n := len(e.info.Spans); goesOn && n > 0 && e.info.Spans[n-1].goesOn(span) {
		last := &e.info.Spans[n-1]
		last.Steps += span.Steps
		last.Examples += span.Examples
		last.Train += span.Train
	} else if span.Steps > 0 {
		e.info.Spans = append(e.info.Spans, span)
	}
	e.openSpan(next)
	return span
}

// add counts a step.
func (e *epochRun) add(loss float64, done amount) {
	if done.weight > 0 {
		e.mean.Add(loss, done.weight)
	}
	e.info.Examples += done.examples
	e.info.Losses = append(e.info.Losses, loss)
	e.span.Steps++
	e.span.Examples += done.examples
}

// evaluated counts an evaluation within the epoch, whose time is not that of steps.
func (e *epochRun) evaluated(v Evaluation) {
	e.evaluating += v.Time
	e.from = e.from.Add(v.Time)
	e.info.Evaluations = append(e.info.Evaluations, v)
}
