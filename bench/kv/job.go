package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/paragon-train/paragon/bench/internal/processes"
	"github.com/paragon-train/paragon/internal/store/identity"
)

// A job is one run of processes.
type job struct {
	size
	transport string
	works     []string
	scale     float64
	profile   string
	// peer is the command of another program that plays the works; nil: this one.
	peer []string
}

// errLate is the end of a work that takes longer than its time.
var errLate = errors.New("took longer than its time")

// run runs the job and reports each work as it ends. After an error done is how many works were
// reported or skipped, and the one behind them is to blame. Each work, with what goes ahead of it,
// has the time of the limit; the job is ended when one takes longer: errLate.
func (j *job) run(ctx context.Context, limit time.Duration, r *report) (done int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(limit, func() { cancel(errLate) })
	defer timer.Stop()
	running, err := j.start(ctx)
	if err == nil {
		if done, err = j.play(running, timer, limit, r); err != nil {
			// A failure stays one, however long the processes take to end.
			timer.Stop()
		}
		// The processes' own words come first.
		err = errors.Join(running.End(err != nil), err)
	}
	if err != nil && errors.Is(context.Cause(ctx), errLate) {
		// The processes were killed for being late; their own errors say less.
		err = errLate
	}
	return done, err
}

// play reads what the workers tell of each work. Each work has the limit for itself: the timer
// begins anew after it. A work that the peer does not know is skipped.
func (j *job) play(running *processes.Running, timer *time.Timer, limit time.Duration, r *report) (done int, err error) {
	for _, name := range j.works {
		m := measured{job: j.size, transport: j.transport}
		w, err := findWork(name)
		if err != nil {
			return done, err
		}
		m.work = w.scaled(j.scale)
		skip := false
		for _, w := range running.Workers {
			e, err := nextEvent(w, name, true)
			if err != nil {
				return done, err
			}
			skip = e.Skip
		}
		if !skip {
			before, workersBefore := running.CPU(""), running.CPU("worker")
			for _, w := range running.Workers {
				e, err := nextEvent(w, name, false)
				if err != nil {
					return done, err
				}
				if err := m.add(e); err != nil {
					return done, fmt.Errorf("%s: %w", w.Name, err)
				}
			}
			m.cpu, m.workerCPU = running.CPU("")-before, running.CPU("worker")-workersBefore
			r.line(&m)
		}
		done++
		timer.Reset(limit)
	}
	return done, nil
}

// start starts the processes of this program, or of a peer.
func (j *job) start(ctx context.Context) (*processes.Running, error) {
	plan, err := plan(j.works, j.scale)
	if err != nil {
		return nil, err
	}
	var authority *identity.Authority
	if ways[j.transport].certificates {
		if authority, err = identity.NewAuthority("bench"); err != nil {
			return nil, err
		}
	}
	backups := 0
	if j.backups {
		backups = 1
	}
	var address func(role string, rank int) string
	if ways[j.transport].hosts {
		address = hostAddress
	}
	return processes.Job{
		Address: address,
		Workers: j.workers, Servers: j.servers,
		Env: []string{roleEnv + "=job", workEnv + "=" + strings.Join(j.works, ","), scaleEnv + "=" + strconv.FormatFloat(j.scale, 'g', -1, 64),
			fmt.Sprintf("PARAGON_BACKUPS=%d", backups), transportEnv + "=" + j.transport, profileEnv + "=" + j.profile, planEnv + "=" + plan},
		EnvOf: func(role string, rank int) ([]string, error) {
			if authority == nil {
				return []string{"PARAGON_IDENTITY="}, nil
			}
			id, err := authority.Issue(role, fmt.Sprintf("%s %d", role, rank))
			if err != nil {
				return nil, err
			}
			return []string{"PARAGON_IDENTITY=" + id.Encode()}, nil
		},
		Command: func(string, int) []string { return j.peer },
	}.Start(ctx)
}

// nextEvent reads a worker's next event, which must be this one.
func nextEvent(p *processes.Process, work string, begin bool) (event, error) {
	var e event
	line, err := p.Line()
	if err != nil {
		return e, err
	}
	err = json.Unmarshal(line, &e)
	if err != nil || e.Work != work || e.Begin != begin && !(begin && e.Skip) {
		return e, fmt.Errorf("%s: got %.100q, want an event of work %s", p.Name, line, work)
	}
	return e, nil
}
