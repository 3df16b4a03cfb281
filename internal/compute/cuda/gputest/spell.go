package gputest

import (
	"errors"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// Spell is the time of a run of f, which gives work to s: the best of three spells of n runs,
// between two events.
func Spell(t testing.TB, ctx *drv.Context, s drv.Stream, n int, f func() error) (best time.Duration) {
	t.Helper()
	Must(t, ctx.Do(func() (err error) {
		from, err1 := ctx.NewEvent(true)
		to, err2 := ctx.NewEvent(true)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ctx.DestroyEvent(from), ctx.DestroyEvent(to)) }()
		if err := f(); err != nil { // warm
			return err
		}
		for range 3 {
			err := ctx.Record(from, s)
			for range n {
				err = errors.Join(err, f())
			}
			if err = errors.Join(err, ctx.Record(to, s), ctx.Synchronize(s)); err != nil {
				return err
			}
			took, err := ctx.Elapsed(from, to)
			if err != nil {
				return err
			}
			if took /= time.Duration(n); best == 0 || took < best {
				best = took
			}
		}
		return nil
	}))
	return max(best, 1)
}
