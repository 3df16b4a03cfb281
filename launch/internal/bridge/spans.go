package bridge

import (
	"time"

	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/kvstore"
)

// waits are the operations for whose answer the training loop waits, beside the turn.
var waits = map[string]bool{"push": true, "pull": true, "pushpull": true, "push_rows": true, "pull_rows": true, "barrier": true, "broadcast": true}

// traceOf is the Recorder of a store's process; nil, which is never on, of a store without one.
func traceOf(store kvstore.Store) *trace.Recorder {
	if s, ok := store.(trace.Owner); ok {
		return s.Trace()
	}
	return nil
}

// waited says that the training loop has waited since then for an exchange or a request.
func (r *reports) waited(since time.Time) {
	r.exchanging.Add(int64(time.Since(since)))
	r.span(trace.Wait, since, time.Now())
}

// span records a part of a step.
func (r *reports) span(kind trace.Kind, begin, end time.Time) {
	if t := r.trace.Load(); t.On() && end.After(begin) {
		t.Add(trace.Span{Kind: kind, Begin: t.At(begin), End: t.At(end), Step: t.Step()})
	}
}

// spans records the parts of a step that ends now. Python says how long its parts took and not when
// they were: a loop takes its batch first and saves last, and computes between. The waits within
// have spans of their own, which the table of a trace takes off.
func (r *reports) spans(told *kvstore.StepReport, now time.Time) {
	if r.begun.IsZero() {
		return
	}
	data := r.begun.Add(r.agreeing)
	compute, save := data.Add(told.Data), now.Add(-told.Save)
	r.span(trace.Data, data, compute)
	r.span(trace.Compute, compute, save)
	r.span(trace.Save, save, now)
}
