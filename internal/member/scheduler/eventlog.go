package scheduler

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

const (
	// maxEvents bounds the memory for events.
	maxEvents = 10_000
	// maxEventsAnswered bounds one answer. The rest comes with the next request.
	maxEventsAnswered = 1000
)

// An eventLog numbers what happens to hosts, servers and the number of workers, remembers the
// newest events, and answers those who wait for the next ones.
//
// Numbers go up by one and are never used again, also after a restart. A poll is answered with the
// first event that it waits for, although others may follow in the same step: whoever follows the
// events asks again at once.
type eventLog struct {
	list []control.Event
	last uint64
	// polls are requests for events beyond those that there are.
	polls []poll
}

// A poll is a request for future events.
type poll struct {
	request  uint64
	after    uint64
	deadline time.Time
}

// add numbers an event, notes it and answers the polls that wait for it. said is what the log says
// beside the note.
func (l *eventLog) add(out *output, e control.Event, said slog.Attr) {
	l.last++
	e.Number, e.TimeNS = l.last, out.now.UnixNano()
	l.list = append(l.list, e)
	out.put(eventKey(e.Number), e)
	if len(l.list) > maxEvents {
		out.drop(eventKey(l.list[0].Number))
		l.list = l.list[1:]
	}
	noteEvent(out, e, said)
	l.tell(out)
}

// noteEvent writes an event into the log for people.
func noteEvent(out *output, e control.Event, said slog.Attr) {
	switch {
	case e.Action == control.Ranks:
		// It is noted with the ranks.
	case e.Action == control.Taken, e.Action == control.Vacated, e.Action == control.Lost && e.Reason != "":
		// The reason is a sentence that names the process and its host.
		out.note("%s", e.Reason).Event = said
	case e.Action == control.BecameSlow:
		out.warn("%s", e.Reason).Event = said
	case e.Action == control.NotSlow:
		out.note("%s", e.Reason).Event = said
	case e.Action == control.Scaling:
		out.note("scale %d: to %s", e.Number, control.ScaleText(e.Workers, e.Placement)).Event = said
	case e.Action == control.Wish:
		out.note("rank 0 asks for %s%s", control.ScaleText(e.Workers, nil), because(e.Reason)).Event = said
	case e.OfJob():
		out.note("scale %d: %s%s", e.Scale, e.Action, because(e.Reason)).Event = said
	case !e.OfServer():
		out.note("host %s: %s%s", e.Host, e.Action, because(e.Reason)).Event = said
	case e.Host == "":
		out.note("server %d: %s%s", e.Rank, e.Action, because(e.Reason)).Event = said
	default:
		out.note("server %d on %s: %s%s", e.Rank, e.Host, e.Action, because(e.Reason)).Event = said
	}
}

// loggedEvent is what the log says of an event whose teller does not say it.
func loggedEvent(e control.Event) slog.Attr {
	switch {
	case e.OfJob():
		return joblog.Scale.With("action", e.Action, "workers", e.Workers, "reason", e.Reason)
	case e.OfServer():
		return joblog.ServerChanged.With("action", e.Action, "node_rank", e.Rank, "node_host", e.Host, "reason", e.Reason)
	}
	return joblog.HostChanged.With("action", e.Action, "node_host", e.Host, "reason", e.Reason)
}

// because is a reason as the end of a sentence; none is added to an empty one.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// read answers a request for the events after one, at once if there are some or the job has ended.
func (l *eventLog) read(out *output, request uint64, r control.Request) {
	if l.last <= r.After && r.WaitMillis > 0 && out.job.open() {
		l.polls = append(l.polls, poll{request, r.After, out.now.Add(time.Duration(r.WaitMillis) * time.Millisecond)})
		return
	}
	out.report(request, l.after(out.job, r.After))
}

// after is the answer to who has seen the events up to one.
func (l *eventLog) after(job *jobState, after uint64) *control.Events {
	a := &control.Events{Phase: phaseNames[job.phase], Reason: job.reason, Failure: job.failure, Last: l.last, Events: []control.Event{}}
	for _, e := range l.list {
		if e.Number > after && len(a.Events) < maxEventsAnswered {
			a.Events = append(a.Events, e)
		}
	}
	return a
}

// tell answers the polls for which there are events, and all of them once the job has ended.
func (l *eventLog) tell(out *output) {
	l.end(out, func(p poll) bool { return l.last > p.after || !out.job.open() })
}

// pass answers the polls whose time is over, without events.
func (l *eventLog) pass(out *output) {
	l.end(out, func(p poll) bool { return !out.now.Before(p.deadline) })
}

// end answers the polls that match and takes them out.
func (l *eventLog) end(out *output, match func(poll) bool) {
	l.polls = slices.DeleteFunc(l.polls, func(p poll) bool {
		over := match(p)
		if over {
			out.report(p.request, l.after(out.job, p.after))
		}
		return over
	})
}

// clearScale takes what a Scaling event asked for out of it: it counts no more, and may be long.
// The launcher passes over such an event.
func (l *eventLog) clearScale(out *output, number uint64) {
	i, found := slices.BinarySearchFunc(l.list, number, func(e control.Event, n uint64) int { return int(int64(e.Number) - int64(n)) })
	if found {
		l.list[i].Placement, l.list[i].Workers = nil, 0
		out.put(eventKey(number), l.list[i])
	}
}

func (l *eventLog) next(bool) (t time.Time) {
	for _, p := range l.polls {
		t = sooner(t, p.deadline)
	}
	return t
}

func (l *eventLog) forget(request uint64) {
	l.polls = slices.DeleteFunc(l.polls, func(p poll) bool { return p.request == request })
}

func eventKey(number uint64) string { return fmt.Sprintf("event/%012d", number) }

// restore takes the record of one event. They come in the order of their numbers, which the keys
// have with leading zeros.
func (l *eventLog) restore(_ string, value []byte) error {
	var e control.Event
	if err := json.Unmarshal(value, &e); err != nil {
		return err
	}
	l.list, l.last = append(l.list, e), e.Number
	return nil
}
