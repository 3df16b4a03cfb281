package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
)

// A BadBudgetError ends Fit on all workers when more examples of a pass over the data are damaged
// than the feed may leave out (BadExampleFeed).
type BadBudgetError struct {
	// Budget is how many may be left out, and Count how many all workers have left out.
	Budget, Count int
	// First are the first of them that this worker has read, at most three: the log names each.
	First []*data.BadExampleError
}

func (e *BadBudgetError) Error() string {
	var names []string
	for _, bad := range e.First {
		names = append(names, bad.Error())
	}
	own := "the logs of all workers name them"
	if len(names) > 0 {
		own = "this worker has read " + strings.Join(names, "; ") + "; the logs of all workers name the others"
	}
	return fmt.Sprintf("%d examples are damaged on all workers, more than the %d that may be left out of a pass over the data: %s", e.Count, e.Budget, own)
}

// Unwrap returns the damaged examples.
func (e *BadBudgetError) Unwrap() []error {
	list := make([]error, len(e.First))
	for i, bad := range e.First {
		list[i] = bad
	}
	return list
}

// finalIfDamaged says of an error of damaged data that no restart can mend it.
func finalIfDamaged(err error) error {
	var many *data.BadExamplesError
	if errors.As(err, &many) {
		return exitreport.Final(exitreport.Program, err)
	}
	return err
}

// mostBadNamed is how many damaged examples an error names, which all processes of a job repeat.
const mostBadNamed = 3

// A badTally counts the damaged examples of a pass over the data that all workers have left out.
// Each tells of its own in the agreement after a step; rank 0 adds what was told before, so that a
// worker that joins knows it after its first step.
type badTally struct {
	budget int
	// logger is nil where the feed leaves nothing out.
	logger *slog.Logger
	// told counts those of all workers, up to the newest agreement, and own those of this
	// worker since. pushed is the part of own that is in the agreement under way.
	told, own, pushed int
	// number is that of the pass.
	number int
	// first are the first ones of this worker, which an error names.
	first []*data.BadExampleError
}

func newBadTally(feed Feed, logger *slog.Logger) (b badTally) {
	if f, ok := feed.(BadExampleFeed); ok {
		b.budget, b.logger = f.BadBudget(), logger
	}
	return b
}

// begin goes on in a pass of which so many were left out.
func (b *badTally) begin(pass, told int) { b.number, b.told = pass, told }

// pass says which pass over the data is under way: each begins with none left out.
func (b *badTally) pass(number int) {
	if number != b.number {
		b.number, b.told, b.own, b.pushed, b.first = number, 0, 0, 0, nil
	}
}

// count is how many all workers have left out, as far as is known.
func (b *badTally) count() int { return b.told + b.own }

// leaveOut counts what this worker leaves out of a batch, and names each.
func (b *badTally) leaveOut(list []*data.BadExampleError, epoch int) {
	for _, bad := range list {
		b.own++
		if len(b.first) < mostBadNamed {
			b.first = append(b.first, bad)
		}
		b.logger.Warn("a damaged example is left out", "example", bad.Example, "name", bad.Name, "error", bad.Err, "epoch", epoch, "budget", b.budget)
	}
}

// lanes tells all workers.
func (b *badTally) lanes(flags []float32, rank int) {
	b.pushed = b.own
	flags[laneBad] = float32(b.pushed)
	if rank == 0 {
		flags[laneBad] += float32(b.told)
	}
}

// heard takes what all workers have told, the same on each, and is an error if it is more than the
// budget.
func (b *badTally) heard(v verdict, workers int) error {
	if b.logger == nil {
		return nil
	}
	if v.known {
		b.told = int(math.Round(v.bad * float64(workers)))
		b.own -= b.pushed
		b.pushed = 0
	}
	if b.told <= b.budget {
		return nil
	}
	return exitreport.Final(exitreport.Program, &BadBudgetError{Budget: b.budget, Count: b.told, First: b.first})
}
