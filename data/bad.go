package data

import (
	"fmt"
	"log/slog"
	"strings"
)

// A BadExamplesError says that more examples are damaged than may be left out.
type BadExamplesError struct {
	// Budget is how many may be left out, and Count how many there were when it was noticed.
	Budget, Count int
	// First are the first of them, at most ten.
	First []*BadExampleError
}

// mostNamed is how many damaged examples a BadExamplesError names.
const mostNamed = 10

func (e *BadExamplesError) Error() string {
	var text strings.Builder
	if e.Budget == 0 && len(e.First) == 1 {
		return fmt.Sprintf("data: loader: %v; BadExamples leaves so many out, and launch data check finds all that are damaged", e.First[0])
	}
	fmt.Fprintf(&text, "data: loader: %d examples are damaged, more than the %d that may be left out", e.Count, e.Budget)
	for i, bad := range e.First {
		fmt.Fprintf(&text, "%s%v", map[bool]string{true: ": ", false: "; "}[i == 0], bad)
	}
	if more := e.Count - len(e.First); more > 0 {
		fmt.Fprintf(&text, "; and %d more", more)
	}
	return text.String()
}

// Unwrap returns the damaged examples.
func (e *BadExamplesError) Unwrap() []error {
	list := make([]error, len(e.First))
	for i, bad := range e.First {
		list[i] = bad
	}
	return list
}

// A badBudget counts the damaged examples that a Loader has handed out.
type badBudget struct {
	budget, count int

	// logger is nil if there is none.
	logger *slog.Logger

	first []*BadExampleError
}

// spend counts the damaged examples of a batch against the budget. Next calls it batch by batch in
// order, so the example that exceeds the budget is the same one however many goroutines read.
func (b *badBudget) spend(list []*BadExampleError) error {
	for _, bad := range list {
		b.count++
		if len(b.first) < mostNamed {
			b.first = append(b.first, bad)
		}
		if b.count > b.budget {
			return &BadExamplesError{Budget: b.budget, Count: b.count, First: b.first}
		}
		if b.logger != nil {
			b.logger.Warn("a damaged example is left out", "example", bad.Example, "name", bad.Name, "error", bad.Err, "left out", b.count, "budget", b.budget)
		}
	}
	return nil
}
