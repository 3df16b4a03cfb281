package tune

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// divides says whether the study's scheduler divides nodes among trials.
func divides(c *Config) bool {
	_, ok := c.Scheduler.(Allocator)
	return ok
}

// dividing returns the scheduler and the runner of a study whose scheduler divides nodes, or nils.
func dividing(c *Config) (Allocator, Scaler, error) {
	a, ok := c.Scheduler.(Allocator)
	if !ok {
		return nil, nil, nil
	}
	if err := c.Validate(); err != nil {
		return nil, nil, err
	}
	r, ok := c.Runner.(Scaler)
	if !ok {
		return nil, nil, fmt.Errorf("tune: %T divides nodes among elastic jobs, but %T runs no jobs: set Config.Runner to Jobs", a, c.Runner)
	}
	least, _ := a.Replicas()
	if err := r.Scalable(c.Resources, max(least, 1)); err != nil {
		return nil, nil, fmt.Errorf("tune: %T: a trial can never run: %w", a, err)
	}
	return a, r, nil
}

// A division is what a study needs to divide nodes among its trials while it runs. The nil division
// is that of a study whose trials have places of their own.
type division struct {
	allocator Allocator
	scaler    Scaler
	// due holds one element while a decision is due.
	due chan struct{}

	// mu guards all below.
	mu sync.Mutex
	// causes are those of the decision that is due.
	causes []string
	// reports counts those since the last decision.
	reports int
	// pulses are those of the attempts that run, by trial.
	pulses map[int]attemptPulse
	// placed has by trial the newest attempt that was given replicas.
	placed map[int]int
}

// newDivision is one by which no decision was made yet.
func newDivision(a Allocator, r Scaler) *division {
	return &division{allocator: a, scaler: r, due: make(chan struct{}, 1), pulses: make(map[int]attemptPulse), placed: make(map[int]int)}
}

// note takes note of an event that may call for a decision.
func (d *division) note(e *Event) {
	if d == nil {
		return
	}
	switch e.Kind {
	case EventStart:
		d.want(fmt.Sprintf("trial %d started", e.Trial))
	case EventEnd:
		d.want(fmt.Sprintf("trial %d ended", e.Trial))
	case EventReport:
		most, _ := d.allocator.Pace()
		d.mu.Lock()
		d.reports++
		due := most > 0 && d.reports >= most
		d.mu.Unlock()
		if due {
			d.want(fmt.Sprintf("%d reports came", most))
		}
	}
}

// want says that a decision is due.
func (d *division) want(cause string) {
	d.mu.Lock()
	if !slices.Contains(d.causes, cause) {
		d.causes = append(d.causes, cause)
	}
	d.mu.Unlock()
	select {
	case d.due <- struct{}{}:
	default:
	}
}

// maxCauses is how many causes a decision names.
const maxCauses = 4

// take returns why a decision is due, and begins to count again.
func (d *division) take(otherwise string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	causes := d.causes
	d.causes, d.reports = nil, 0
	if more := len(causes) - maxCauses; more > 0 {
		causes = append(causes[:maxCauses:maxCauses], fmt.Sprintf("%d more", more))
	}
	return cmp.Or(strings.Join(causes, ", "), otherwise)
}

// An attemptPulse is the pulse of an attempt.
type attemptPulse struct {
	attempt int
	pulse   *pulse
}

// attend keeps the pulse of an attempt until its end.
func (d *division) attend(trial, attempt int, p *pulse) (end func()) {
	if d == nil {
		return func() {}
	}
	mine := attemptPulse{attempt, p}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pulses[trial] = mine
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.pulses[trial] == mine {
			delete(d.pulses, trial)
			delete(d.placed, trial)
		}
	}
}

// waits says whether an attempt has not been given replicas yet. The time until it has to report
// does not run.
func (d *division) waits(trial, attempt int) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.placed[trial] != attempt
}

// begins takes note of an attempt's first replicas: from now on the time until it has to report
// runs.
func (d *division) begins(trial, attempt int) {
	d.mu.Lock()
	p := d.pulses[trial]
	first := d.placed[trial] != attempt
	d.placed[trial] = attempt
	d.mu.Unlock()
	if first && p.attempt == attempt {
		p.pulse.beat()
	}
}

// least is the smallest number of replicas of a trial, at least 1.
func (d *division) least() int {
	least, _ := d.allocator.Replicas()
	return max(least, 1)
}
