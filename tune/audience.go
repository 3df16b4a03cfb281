package tune

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// An audience is a study's observers, with the events that they have not seen. They see an event
// once it is on the disk, in order. The study's mutex guards it.
type audience struct {
	study     string
	observers []Observer
	unseen    []Event
	logger    *slog.Logger
}

// add takes an event that is not on the disk yet.
func (a *audience) add(e *Event) {
	if len(a.observers) > 0 {
		a.unseen = append(a.unseen, *e)
	}
}

// show shows the events before number done, which are on the disk. What an observer fails on does
// not end the study.
func (a *audience) show(done uint64, v View) {
	for len(a.unseen) > 0 && a.unseen[0].Seq < done {
		for _, o := range a.observers {
			if err := guarded(func() error { o.Observe(v, a.unseen[0]); return nil }); err != nil {
				a.logger.Error("tune: an observer failed on an event", "study", a.study, "number", a.unseen[0].Seq, "error", err)
			}
		}
		a.unseen = a.unseen[1:]
	}
}

// close closes the observers that can be.
func (a *audience) close(v View) (err error) {
	for _, o := range a.observers {
		if c, ok := o.(Closer); ok {
			err = errors.Join(err, c.Close(v))
		}
	}
	return err
}

// guarded calls f, in which a scheduler, a pruner, a suggester or an observer of the user's may
// panic.
func guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return f()
}
