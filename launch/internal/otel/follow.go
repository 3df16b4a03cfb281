package otel

import (
	"context"
	"math"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

const (
	// askInterval is the time between questions without events.
	askInterval = time.Second

	// leastPause is the time from one question to the next.
	leastPause = 200 * time.Millisecond
)

// A Source asks the scheduler of a job.
type Source interface {
	Ask(ctx context.Context, q control.Request, into control.Answer) (raw []byte, err error)
}

// Follow asks the scheduler what happens to the attempt that runs, until stop is called.
func (t *Tracer) Follow(source Source) (stop func()) {
	t.mu.Lock()
	a := t.attempt
	t.mu.Unlock()
	if a == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for after := uint64(0); ctx.Err() == nil; {
			pause := time.NewTimer(leastPause)
			if n, err := t.ask(ctx, source, a, after); err == nil {
				after = n.Last
			}
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
			}
		}
	}()
	return func() { cancel(); <-done }
}

// An answered is what the scheduler said at one time.
type answered struct {
	control.Events
	status    control.Status
	telemetry control.Telemetry

	// asked and at are when the question for the telemetry was put, and answered, by this machine's
	// clock.
	asked, at time.Time
}

// metricNames are the metrics that spans of checkpoints are made of.
var metricNames = []string{telemetry.CheckpointTime.String(), telemetry.SaveDuration.String(), telemetry.ClockOffset.String()}

// ask waits for events behind after, at most for a while, and then asks for the rest.
func (t *Tracer) ask(ctx context.Context, source Source, a *attempt, after uint64) (*answered, error) {
	n := &answered{}
	// What the status says has its events in an answer that comes behind it, so the events are
	// asked for twice.
	if _, err := source.Ask(ctx, control.Request{Op: control.OpEvents, After: after, WaitMillis: askInterval.Milliseconds()}, &n.Events); err != nil {
		return nil, err
	}
	n.asked = t.now()
	if _, err := source.Ask(ctx, control.Request{Op: control.OpTelemetry, Metrics: metricNames}, &n.telemetry); err != nil {
		return nil, err
	}
	n.at = t.now()
	if _, err := source.Ask(ctx, control.Request{Op: control.OpStatus}, &n.status); err != nil {
		return nil, err
	}
	var more control.Events
	if _, err := source.Ask(ctx, control.Request{Op: control.OpEvents, After: max(n.Last, after)}, &more); err != nil {
		return nil, err
	}
	n.Events.Events = append(n.Events.Events, more.Events...)
	for _, e := range n.Events.Events {
		n.Last = max(n.Last, e.Number)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.attempt == a {
		a.members.take(t, a, n)
	}
	return n, nil
}

// A membership is what the scheduler has said of an attempt.
type membership struct {
	// ahead is the scheduler's clock before this machine's.
	ahead time.Duration

	// within says how wrong ahead may be; 0: it is not known.
	within time.Duration

	generation uint64

	// last is the number of the newest event.
	last uint64

	pending *change

	// since is the time of the earliest event that belongs to the next change; zero: there is none.
	since time.Time

	checkpoints uint64

	// saved is when the newest checkpoint was complete, by the scheduler's clock in Unix seconds.
	saved float64
}

// A change of the membership is pending.
type change struct {
	number uint64
	begin  time.Time
	causes []string
}

// take makes spans and events of an answer.
func (m *membership) take(t *Tracer, a *attempt, n *answered) {
	m.compare(n)
	committed := m.events(a, n.Events.Events)
	// In the first answer the generation says nothing of changes, and their events do.
	if n.status.Generation > m.generation && (m.generation != 0 || !committed.IsZero()) {
		if committed.IsZero() {
			committed = n.at
		}
		attrs := []attribute.KeyValue{generationKey.Int64(int64(n.status.Generation)), workersKey.Int(n.status.Workers)}
		m.commit(t, a, committed, n.status.Change, attrs)
	}
	m.generation = n.status.Generation
	if c := n.status.Change; c != nil {
		if m.pending == nil || m.pending.number != c.Number {
			m.pending = &change{number: c.Number, begin: n.at.Add(-time.Duration(c.Seconds * float64(time.Second)))}
		}
		m.pending.causes = c.Causes
	}
	for _, x := range n.status.Nodes {
		if x.State == control.NodeCounts && n.status.Phase == control.Running {
			// No event tells of some processes.
			a.joined(x.Process, n.at)
		}
	}
	a.unjoined(n.asked)
	m.save(t, a, &n.telemetry)
}

// events makes span events of those that are new, and returns when the last of those came that tell
// of a committed change; zero: none did.
func (m *membership) events(a *attempt, list []control.Event) (committed time.Time) {
	for _, e := range list {
		if e.Number <= m.last {
			continue
		}
		m.last = e.Number
		at := m.local(time.Unix(0, e.TimeNS))
		a.span.AddEvent(e.Action, trace.WithTimestamp(at), trace.WithAttributes(eventAttributes(&e)...))
		switch e.Action {
		case control.Added, control.Left, control.Ranks:
			committed = at
			if e.Process != 0 && e.Action == control.Added {
				a.joined(e.Process, at)
			}
		case control.Lost, control.Leaving, control.RemovalQueued:
			if m.since.IsZero() && e.Role != control.Server {
				m.since = at
			}
		}
	}
	return committed
}

// compare keeps the better measurement of the scheduler's clock.
func (m *membership) compare(n *answered) {
	// The scheduler's time comes in milliseconds, hence the one that is added.
	within := n.at.Sub(n.asked)/2 + time.Millisecond
	if m.within != 0 && m.within <= within {
		return
	}
	m.within = within
	m.ahead = time.UnixMilli(n.telemetry.NowMillis).Sub(n.asked.Add(n.at.Sub(n.asked) / 2))
	if m.ahead.Abs() <= within {
		// Nothing says that the clocks differ.
		m.ahead = 0
	}
}

// local is a time of the scheduler's clock by this machine's.
func (m *membership) local(at time.Time) time.Time { return at.Add(-m.ahead) }

// commit makes the span of a change that was committed at a time; next is the one that is pending
// since then.
func (m *membership) commit(t *Tracer, a *attempt, at time.Time, next *control.Change, attrs []attribute.KeyValue) {
	begin := at
	if !m.since.IsZero() && m.since.Before(begin) {
		begin = m.since
	}
	if p := m.pending; p != nil && (next == nil || next.Number != p.number) {
		if p.begin.Before(begin) {
			begin = p.begin
		}
		attrs = append(attrs, causesKey.StringSlice(p.causes))
		m.pending = nil
	}
	_, s := t.tracer.Start(a, "change", trace.WithTimestamp(begin), trace.WithAttributes(attrs...))
	s.End(trace.WithTimestamp(at))
	m.since = time.Time{}
}

// settle takes what the launcher knows of the attempt's last moment, when the scheduler could no
// longer be asked. A change that is still pending ends.
func (m *membership) settle(t *Tracer, a *attempt, at time.Time, changes []control.Event) {
	if committed := m.events(a, changes); !committed.IsZero() {
		m.commit(t, a, committed, nil, nil)
	}
	if m.pending != nil {
		m.commit(t, a, at, nil, []attribute.KeyValue{reasonKey.String("it was pending when the attempt ended")})
	}
}

// save makes the span of the newest checkpoint, if it is another one. Of several between two
// questions only the newest has a span.
func (m *membership) save(t *Tracer, a *attempt, x *control.Telemetry) {
	column := func(name string) int {
		return slices.IndexFunc(x.Columns, func(v control.Value) bool { return v.Metric == name })
	}
	when, took, offset := column(metricNames[0]), column(metricNames[1]), column(metricNames[2])
	if when < 0 || took < 0 {
		return
	}
	newest, seconds := m.saved, math.NaN()
	for i := range x.Nodes {
		v := x.Nodes[i].Values
		at := float64(v[when])
		if offset >= 0 && !math.IsNaN(float64(v[offset])) {
			at += float64(v[offset])
		}

		// The offset is measured again and again, and a few milliseconds are no other checkpoint.
		if at > newest+0.01 {
			newest, seconds = at, float64(v[took])
		}
	}

	// After another start of the scheduler the count may be lower.
	another := x.Checkpoints != m.checkpoints
	m.checkpoints = x.Checkpoints
	if !another || x.Checkpoints == 0 || newest == m.saved || !(newest < math.MaxInt64/1e9) {
		return
	}
	m.saved = newest
	at := m.local(time.Unix(0, int64(newest*1e9)))
	begin := at
	if seconds > 0 && seconds < math.MaxInt32 {
		begin = at.Add(-time.Duration(seconds * float64(time.Second)))
	}
	_, s := t.tracer.Start(a, "checkpoint", trace.WithTimestamp(begin), trace.WithAttributes(countKey.Int64(int64(x.Checkpoints))))
	s.End(trace.WithTimestamp(at))
}
