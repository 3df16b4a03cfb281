package cudnn

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A Timing is what Tune measured of one candidate.
type Timing struct {
	Engine string

	// Time is that of one run, the best of several spells.
	Time time.Duration

	Workspace int64
	Err       error // why it was left out
}

// spells is how often each candidate is timed; the shortest counts, since all that disturbs makes
// it longer. A candidate whose first timed run takes slow times as long as the best of those before
// it is not timed again, and no spell is longer than longestSpell, but for one run.
const (
	spells       = 3
	slow         = 3
	longestSpell = 4 * time.Millisecond
)

// Tune times the candidates on s and returns the fastest, and what was measured of each, in the
// order given. run enqueues one candidate on s. Each is run once to warm up, then up to repeat
// times between two events, three times over. Of equals the earlier is taken. A candidate that the
// library refuses is left out; any other error ends the matter, since the device may be lost.
// repeat 0 measures nothing and takes the first that runs, the heuristics' guess.
//
// Candidates are plans of this package or others that can name themselves.
func Tune[P interface {
	Engine() string
	Workspace() int64
}](ctx *drv.Context, s drv.Stream, candidates []P, run func(P) error, repeat int) (best P, timings []Timing, err error) {
	if repeat < 0 {
		return best, nil, fmt.Errorf("cudnn: tune: repeat is %d, want 0 or more", repeat)
	}
	w, err := newWatch(ctx, s, repeat)
	if err != nil {
		return best, nil, fmt.Errorf("cudnn: tune: %w", err)
	}
	defer func() { err = errors.Join(err, w.close()) }()
	least := time.Duration(math.MaxInt64)
	var reasons []error
	for _, p := range candidates {
		t := Timing{Engine: p.Engine(), Time: math.MaxInt64, Workspace: p.Workspace()}
		err := run(p)
		if err == nil {
			err = ctx.Synchronize(s)
		}
		if err == nil && repeat > 0 {
			t.Time, err = w.time(func() error { return run(p) }, least)
		}
		if err != nil && Refused(err) {
			// What the library says of a device that this candidate broke looks like a
			// refusal.
			if lost := ctx.Synchronize(s); lost != nil {
				return best, timings, fmt.Errorf("cudnn: tune %s: %w", t.Engine, errors.Join(lost, err))
			}
			t.Err, t.Time = err, 0
			reasons = append(reasons, err)
			timings = append(timings, t)
			continue
		}
		if err != nil {
			return best, timings, fmt.Errorf("cudnn: tune %s: %w", t.Engine, err)
		}
		if repeat == 0 {
			t.Time = 0
			return p, append(timings, t), nil
		}
		if t.Time < least {
			best, least = p, t.Time
		}
		timings = append(timings, t)
	}
	if len(reasons) == len(candidates) {
		return best, timings, fmt.Errorf("cudnn: tune: none of %d candidates runs: %w", len(candidates), refused(reasons))
	}
	return best, timings, nil
}

// A watch times work on a stream.
type watch struct {
	ctx      *drv.Context
	s        drv.Stream
	repeat   int
	from, to drv.Event
}

func newWatch(ctx *drv.Context, s drv.Stream, repeat int) (*watch, error) {
	w := &watch{ctx: ctx, s: s, repeat: repeat}
	var err error
	if w.from, err = ctx.NewEvent(true); err != nil {
		return nil, err
	}
	if w.to, err = ctx.NewEvent(true); err != nil {
		return nil, errors.Join(err, ctx.DestroyEvent(w.from))
	}
	return w, nil
}

func (w *watch) close() error {
	return errors.Join(w.ctx.DestroyEvent(w.from), w.ctx.DestroyEvent(w.to))
}

// time is that of one run. least is the best so far.
func (w *watch) time(run func() error, least time.Duration) (time.Duration, error) {
	best, err := w.spell(run, 1)
	if err != nil || best/slow > least {
		return best, err
	}
	return w.best(run, w.runs(best), best)
}

// runs is how many runs make one spell, if one takes this long.
func (w *watch) runs(one time.Duration) int {
	if one <= 0 {
		return w.repeat
	}
	return max(1, min(w.repeat, int(longestSpell/one)))
}

// best is the least of spells of n runs, and of what is given.
func (w *watch) best(run func() error, n int, best time.Duration) (time.Duration, error) {
	for range spells {
		d, err := w.spell(run, n)
		if err != nil {
			return 0, err
		}
		best = min(best, d)
	}
	return best, nil
}

// spell measures the mean of n runs.
func (w *watch) spell(run func() error, n int) (time.Duration, error) {
	if err := w.ctx.Record(w.from, w.s); err != nil {
		return 0, err
	}
	for range n {
		if err := run(); err != nil {
			return 0, err
		}
	}
	if err := w.ctx.Record(w.to, w.s); err != nil {
		return 0, err
	}
	if err := w.ctx.SynchronizeEvent(w.to); err != nil {
		return 0, err
	}
	d, err := w.ctx.Elapsed(w.from, w.to)
	return d / time.Duration(n), err
}
