// Package jobpage is the page.Feed of a job: it polls the job's scheduler and turns the answers
// into messages for the live page.
package jobpage

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/page"
	"github.com/paragon-train/paragon/launch/internal/top"
)

// A Feed is a page.Feed of the job that a launcher runs, also after the launcher has restarted it.
// SetSource and End may be called concurrently with the other methods.
type Feed struct {
	page page.Page

	// now is this machine's clock, in milliseconds of Unix time.
	now func() int64

	// mu guards what the launcher tells: the fields down to ended.
	mu sync.Mutex

	// source is nil if no scheduler has been started yet.
	source Source

	// attempt counts the starts of the job, from 1.
	attempt int

	over     bool
	exitText string

	// ended is control.Finished or control.Failed, once the job is over.
	ended string

	// The fields below belong to the goroutine that polls.

	// polled is the attempt that the history is of.
	polled int

	polls   int
	history *top.History
	state   page.State

	// known says that state has an answer.
	known bool

	gone    *page.Gone
	members []member

	// last is the number of the newest event.
	last uint64

	curves curves
}

// New returns the Feed of a job of which nothing is known yet. now is this machine's clock in Unix
// milliseconds.
func New(p page.Page, now func() int64) *Feed {
	p.Kind = page.KindJob
	return &Feed{page: p, now: now}
}

// SetSource sets whom to ask from now on. Each call is a new attempt of the job: its curves and
// events begin anew.
func (f *Feed) SetSource(s Source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.source = s
	f.attempt++
}

// End says that the job is over. ok is whether it succeeded; text says for people how it ended, and
// may be empty.
func (f *Feed) End(ok bool, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over, f.exitText, f.ended = true, text, control.Failed
	if ok {
		f.ended = control.Finished
	}
}

// Page implements page.Feed.
func (f *Feed) Page() page.Page { return f.page }

// Routes implements page.Feed.
func (f *Feed) Routes() map[string]http.HandlerFunc { return nil }

// details come in each tenth answer.
const detailsEvery = 10

// Poll implements page.Feed.
func (f *Feed) Poll(ctx context.Context) page.Message {
	f.mu.Lock()
	source, attempt, over, text, ended := f.source, f.attempt, f.over, f.exitText, f.ended
	f.mu.Unlock()
	if over {
		f.gone = f.absence(text)
		f.gone.Phase = ended
		return page.NewMessage(page.EventEnd, f.gone)
	}
	if source == nil {
		f.gone = f.absence("the job is being started: there is no scheduler yet")
		return page.NewMessage(page.EventGone, f.gone)
	}

	// All that was known is about another start of the job.
	if attempt != f.polled {
		f.polled, f.polls, f.history, f.known, f.members, f.last, f.curves = attempt, 0, &top.History{}, false, nil, 0, curves{}
		f.state = page.State{}
	}
	u, err := f.ask(ctx, source)
	if err != nil {
		f.gone = f.absence(err.Error())
		return page.NewMessage(page.EventGone, f.gone)
	}
	f.gone = nil
	u.Job.Restarts = attempt - 1
	return f.take(u)
}

// absence says that nothing can be had now.
func (f *Feed) absence(why string) *page.Gone {
	g := &page.Gone{Since: f.now(), Now: f.now(), Error: why}
	if f.gone != nil {
		g.Since = f.gone.Since
	}
	if f.known {
		g.Newest = f.state.Now
	}
	return g
}

// Whole implements page.Feed.
func (f *Feed) Whole() (list []page.Message) {
	if f.known {
		list = append(list, page.NewMessage(page.EventState, &f.state))
	}
	if f.gone != nil {
		event := page.EventGone
		if f.gone.Phase != "" {
			event = page.EventEnd
		}
		list = append(list, page.NewMessage(event, f.gone))
	}
	return list
}

// ask puts all questions of one Poll.
func (f *Feed) ask(ctx context.Context, source Source) (*answered, error) {
	first := !f.known
	names := top.Names(first || f.polls%detailsEvery == 0)
	var t control.Telemetry
	if _, err := source.Ask(ctx, control.Request{Op: control.OpTelemetry, Metrics: append(names, totalNames...), Steps: page.MaxSteps}, &t); err != nil {
		return nil, err
	}
	var y control.Why
	if _, err := source.Ask(ctx, control.Request{Op: control.OpWhy}, &y); err != nil {
		return nil, err
	}
	var e control.Events
	if _, err := source.Ask(ctx, control.Request{Op: control.OpEvents, After: f.last}, &e); err != nil {
		return nil, err
	}
	if first {
		if err := f.curves.begin(ctx, source, &t); err != nil {
			return nil, err
		}
	}
	f.polls++
	f.history.Add(&t)
	a := &answered{telemetry: &t}
	a.fill(&t, f.history.Snapshot(), first || (f.polls-1)%detailsEvery == 0)
	a.fillWhy(&y)
	for _, x := range e.Events {
		a.events = append(a.events, page.Event{Number: x.Number, Time: x.TimeNS / 1e6, Action: x.Action, Text: top.EventText(x)})
		f.last = x.Number
	}
	a.Reason = e.Reason
	a.Point = f.curves.add(&t, &a.Update, a.servers)
	return a, nil
}

// Limits of lists that only the newest part of is sent.
const (
	mostEvents    = 200
	mostNewEvents = 50
)

// take keeps an answer, and returns what is new in it.
func (f *Feed) take(a *answered) page.Message {
	events := append(f.state.EventList, a.events...)
	events = slices.Clone(events[max(0, len(events)-mostEvents):])
	changed := !f.known || !slices.Equal(a.members, f.members) || a.Incarnation != f.state.Incarnation
	details := a.Workers.Details
	if details == nil && f.known && !changed {
		// Readers who come now get them, too.
		a.Workers.Details = f.state.Workers.Details
	}
	f.state = page.State{Update: a.Update, WorkerMembers: a.workers, ServerMembers: a.servers, LeftOut: a.telemetry.LeftOut, Curves: f.curves.Curves, EventList: events}
	f.state.Point = nil
	f.members, f.known = a.members, true
	if changed {
		return page.NewMessage(page.EventState, &f.state)
	}
	u := a.Update
	u.Workers.Details = details
	u.Events = a.events[max(0, len(a.events)-mostNewEvents):]
	return page.NewMessage(page.EventUpdate, u)
}

// UnixMilli is the system's clock.
func UnixMilli() int64 { return time.Now().UnixMilli() }
