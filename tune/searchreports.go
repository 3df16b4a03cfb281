package tune

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/paragon-train/paragon/tune/internal/checkpoints"
	"github.com/paragon-train/paragon/tune/internal/remote"
)

// searchReports are the reports of a process of a job, whose search is another process.
type searchReports struct {
	search *remote.Client
	ctx    context.Context
	trial  int
	// dir is the folder of the checkpoint to go on from.
	dir string
}

// fetch gets the checkpoint that the attempt goes on from. A copy of it is compared with its
// checksums; remove removes it. What stays is removed by the next process that makes a temporary
// folder.
func (s *searchReports) fetch(task remote.Task) (remove func(), err error) {
	dir, drop, err := s.search.Restore(s.ctx)
	if err != nil {
		return nil, lostSearch(err)
	}
	remove = func() { _ = drop() }
	if copied := dir != task.Restore.Dir; copied {
		if _, err := checkpoints.Verify(dir); err != nil {
			remove()
			return nil, fmt.Errorf("tune: trial %d: checkpoint of trial %d step %d: %w", task.Trial, task.Restore.Donor, task.Restore.Step, err)
		}
	}
	s.dir = dir
	return remove, nil
}

// report implements reports.
func (s *searchReports) report(step int, metrics map[string]float64) error {
	d, err := s.decide(step, metrics)
	if err != nil {
		return err
	}
	return answer(s.trial, step, d)
}

// decide implements reports. The answer has no values that were compared.
func (s *searchReports) decide(step int, metrics map[string]float64) (Decision, error) {
	a, err := s.search.Report(s.ctx, step, metrics)
	if err != nil {
		return Decision{}, lostSearch(err)
	}
	return Decision{Action: Action(a.Action), Rule: a.Rule, Value: math.NaN(), Cutoff: math.NaN()}, nil
}

// folder implements reports. It is "" where the search's files are not there.
func (s *searchReports) folder() (string, error) { return s.search.Task().Folder, nil }

// checkpoint implements reports.
func (s *searchReports) checkpoint(step int, write func(dir string) error) error {
	return lostSearch(s.search.Checkpoint(s.ctx, step, write))
}

// restored implements reports.
func (s *searchReports) restored(checkpoints.Name) string { return s.dir }

// lostSearch gives the error of a search that cannot be reached its class.
func lostSearch(err error) error {
	if errors.Is(err, remote.ErrGone) {
		return Fail(NodeLost, err)
	}
	return err
}
