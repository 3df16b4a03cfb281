package tune

import (
	"errors"
	"sync"

	"github.com/paragon-train/paragon/tune/internal/remote"
)

// A jobReporter is a Reporter as the processes of a job reach it.
type jobReporter struct {
	r     *Reporter
	pulse *pulse

	// mu guards answer.
	mu sync.Mutex
	// answer is the newest answer that asks the trial to return; nil: none has.
	answer error
}

// Decide implements remote.Backend.
func (j *jobReporter) Decide(step int, metrics map[string]float64) (remote.Answer, error) {
	err := j.r.Report(step, metrics)
	switch {
	case err == nil:
		return remote.Answer{Action: string(Continue)}, nil
	case !j.Asks(err):
		return remote.Answer{}, err
	}
	j.mu.Lock()
	j.answer = err
	j.mu.Unlock()
	action := Stop
	if errors.Is(err, ErrPause) {
		action = Pause
	}
	return remote.Answer{Action: string(action), Rule: err.Error()}, nil
}

// Checkpoint implements remote.Backend.
func (j *jobReporter) Checkpoint(step int, write func(dir string) error) error {
	return j.r.Checkpoint(step, write)
}

// Alive implements remote.Backend.
func (j *jobReporter) Alive() { j.pulse.beat() }

// Asks implements trialjob.Search.
func (j *jobReporter) Asks(err error) bool {
	return errors.Is(err, ErrStop) || errors.Is(err, ErrPause)
}

// asked is the newest answer that asks the trial to return.
func (j *jobReporter) asked() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.answer
}
