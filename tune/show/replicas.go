package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/jobs"
)

// replicaColumns are what tables have of trials that are elastic jobs.
var replicaColumns = []string{"replicas", "restarts", "batch", "goodput"}

// elastic says whether any of the trials has been given replicas.
func elastic(trials []*tune.Trial) bool {
	return slices.ContainsFunc(trials, func(t *tune.Trial) bool { return len(t.Placement) > 0 || t.Training != tune.Training{} })
}

// replicaCells are a trial's values of replicaColumns; nil: not known.
func replicaCells(t *tune.Trial) []any {
	cells := []any{t.Placement.Replicas(), max(t.Attempts-1, 0), nil, nil}
	if t.Training.GlobalBatch > 0 {
		cells[2] = t.Training.GlobalBatch
	}
	if t.Training.Goodput > 0 {
		cells[3] = t.Training.Goodput
	}
	return cells
}

// stateText is a trial's state for a table. One that runs and has no replicas yet waits for them.
func stateText(t *tune.Trial, elastic bool) string {
	if elastic && t.State == tune.Running && len(t.Placement) == 0 {
		return "WAITING"
	}
	return strings.ToUpper(string(t.State))
}

// replicasText is "3 replicas (d1=2,d2=1)".
func replicasText(p jobs.Placement) string {
	if len(p) == 0 {
		return "no replicas"
	}
	return fmt.Sprintf("%s (%s)", plural.Of(p.Replicas(), "replica"), p)
}
