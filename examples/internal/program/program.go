// Package program has what programs of the examples have in common: how they join a job, are told
// to stop, and say how they ended.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/worker"
)

// Ending is what a program says of how it ended, and its exit code.
func Ending(err error) (text string, code int) {
	switch {
	case err == nil:
		return "", 0
	case errors.Is(err, worker.ErrRemoved):
		return "removed from the job on request; the other workers continue", 0

	// The job goes on later.
	case errors.Is(err, worker.ErrCheckpointed):
		return "stopped on request, with a checkpoint; --resume continues from it", 0
	case errors.Is(err, ErrStopSaved):
		return "stopped on request, with a checkpoint; --resume continues from it", 143
	case errors.Is(err, worker.ErrStopped):
		return "stopped on request", 143
	case errors.As(err, new(UsageError)):
		return WithFlags(err).Error(), 2
	}
	return WithFlags(err).Error(), 1
}

// ErrStopSaved is joined to worker.ErrStopped in a run with --checkpoint-dir: Fit has written a
// checkpoint after the last step.
var ErrStopSaved = errors.New("a checkpoint was written")

// A UsageError is a command line that cannot be read: exit code 2, as that of other programs.
type UsageError struct{ Err error }

func (e UsageError) Unwrap() error { return e.Err }

func (e UsageError) Error() string { return e.Err.Error() + "; see --help" }

// OnUsageError explains flags that cannot be read, for a cli.App.
func OnUsageError(c *cli.Context, err error, _ bool) error {
	return kvstore.Final(UsageError{ExplainFlag(c.App.VisibleFlags(), err)})
}

// NoArguments is an error if something follows the flags.
func NoArguments(c *cli.Context) error {
	if c.NArg() > 0 {
		return kvstore.Final(UsageError{fmt.Errorf("got %q after the flags, want flags only", c.Args().First())})
	}
	return nil
}

// WithFlags says of a damaged checkpoint which flags go on from the one before it, and of damaged
// examples which flag leaves them out.
func WithFlags(err error) error {
	var damaged *worker.DamageError
	if errors.As(err, &damaged) && damaged.Whole > 0 {
		return fmt.Errorf("%w (--resume --resume-step %d)", err, damaged.Whole)
	}
	var job *worker.BadBudgetError
	if many := (*data.BadExamplesError)(nil); errors.As(err, &many) || errors.As(err, &job) {
		return fmt.Errorf("%w (--bad-examples N)", err)
	}
	return err
}

// Signals tells of the first Ctrl-C, which asks for an orderly stop: Fit ends after a step that all
// workers agree on, and a second one ends the process; and of SIGTERM, which ends this process
// alone, if the job can go on without it. Forget ends that.
func Signals() (stop, leave <-chan struct{}, forget func()) {
	interrupted, forgetInterrupt := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(interrupted, forgetInterrupt)
	term, forgetTerm := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	return interrupted.Done(), term.Done(), forgetTerm
}

// Join joins the job. Being told to end (SIGTERM) ends the wait for it, so that nobody waits for a
// worker that starts as the job ends.
func Join(ctx context.Context, leave <-chan struct{}, store string, opts ...kvstore.Option) (kvstore.Store, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-leave:
			cancel(worker.ErrStopped)
		case <-ctx.Done():
		}
	}()
	s, err := kvstore.Create(ctx, store, opts...)
	if err != nil && errors.Is(context.Cause(ctx), worker.ErrStopped) {
		return nil, worker.ErrStopped
	}
	return s, err
}

// Leave closes the store of a worker that ends with an error, or with none, and returns what the
// program ends with. Saved says that the run had a place for checkpoints.
func Leave(store kvstore.Store, err error, saved bool) error {
	if errors.Is(err, worker.ErrStopped) && saved {
		err = errors.Join(err, ErrStopSaved)
	}
	if errors.Is(err, worker.ErrStopped) || errors.Is(err, worker.ErrRemoved) {
		// All workers stop together, or the others go on: that is no failure.
		return errors.Join(err, store.Close())
	}
	return kvstore.Leave(store, err)
}
