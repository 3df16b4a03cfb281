package job

import (
	"log/slog"
	"slices"
	"time"
)

// An output collects the effects of the event that is being handled: actions for the shell, and
// timers. The parts of the core are given it; none has a clock, and none acts in another way.
type output struct {
	// now is the time of the event. It never runs backwards.
	now     time.Time
	actions []action
	timers  timers
	// changed says that what the launcher observes has changed since its last report.
	changed bool
}

// do adds an action.
func (o *output) do(a action) { o.actions = append(o.actions, a) }

// take returns the actions that were added since it was called last.
func (o *output) take() []action {
	actions := o.actions
	o.actions = nil
	return actions
}

// after lets the core have an event later, unless the job no longer changes by then.
func (o *output) after(d time.Duration, what event) {
	o.timers.add(timer{at: o.now.Add(d), what: what})
}

// afterAnew is after, and cancels the timer that was set before for the event.
func (o *output) afterAnew(d time.Duration, what event) {
	o.timers.cancel(what)
	o.after(d, what)
}

func (o *output) info(text string, event ...slog.Attr) { o.tell(slog.LevelInfo, text, event) }

func (o *output) warn(text string, event ...slog.Attr) { o.tell(slog.LevelWarn, text, event) }

func (o *output) error(text string, event ...slog.Attr) { o.tell(slog.LevelError, text, event) }

func (o *output) tell(level slog.Level, text string, event []slog.Attr) {
	o.do(tell{level, text, event})
}

// A timer is an event that comes by itself, at a time.
type timer struct {
	at   time.Time
	what event
	// lasting timers outlive the time in which the job may change.
	lasting bool
}

// timers are those that are set, in the order in which they were.
type timers struct{ list []timer }

func (t *timers) add(x timer) { t.list = append(t.list, x) }

// next is the time of the earliest timer; zero: none is set.
func (t *timers) next() (next time.Time) {
	for _, x := range t.list {
		if next.IsZero() || x.at.Before(next) {
			next = x.at
		}
	}
	return next
}

// pop removes the earliest timer and returns its event. Of several for the same time the one goes
// first that was set first.
func (t *timers) pop() event {
	next := t.next()
	i := slices.IndexFunc(t.list, func(x timer) bool { return x.at.Equal(next) })
	what := t.list[i].what
	t.list = slices.Delete(t.list, i, i+1)
	return what
}

// cancel removes the timers of an event.
func (t *timers) cancel(what event) {
	t.list = slices.DeleteFunc(t.list, func(x timer) bool { return x.what == what })
}

// settle removes all but those that last.
func (t *timers) settle() {
	t.list = slices.DeleteFunc(t.list, func(x timer) bool { return !x.lasting })
}

// clear removes all.
func (t *timers) clear() { t.list = nil }

// any reports whether an event is to come that is as asked.
func (t *timers) any(is func(event) bool) bool {
	return slices.ContainsFunc(t.list, func(x timer) bool { return is(x.what) })
}
