package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/bench/internal/processes"
	"github.com/paragon-train/paragon/metrics"
)

// What a process of a job is given besides the job's own variables.
const (
	roleEnv     = "PARAGON_STRAGGLER_ROLE"
	settingsEnv = "PARAGON_STRAGGLER_SETTINGS" // JSON
)

// A report is what a worker writes to its standard output at the end, as JSON.
type report struct {
	Steps        int
	Missed, Lead metrics.Histogram
	Snapshots    []snapshot // of rank 0
}

// A snapshot is how far the job had come at a time.
type snapshot struct {
	Seconds  float64
	Examples float64 // trained by all workers
	Accuracy float64
}

// A result is what a job brought.
type result struct {
	Steps        []int // by rank
	Missed, Lead metrics.Histogram
	Snapshots    []snapshot
}

func (r *result) last() snapshot { return r.Snapshots[len(r.Snapshots)-1] }

// at returns accuracy and time when so many examples had been trained, on a straight line between snapshots.
func (r *result) at(examples float64) (accuracy, seconds float64) {
	before := r.Snapshots[0]
	for _, s := range r.Snapshots {
		if s.Examples >= examples {
			share := 1.0
			if s.Examples > before.Examples {
				share = (examples - before.Examples) / (s.Examples - before.Examples)
			}
			return before.Accuracy + share*(s.Accuracy-before.Accuracy), before.Seconds + share*(s.Seconds-before.Seconds)
		}
		before = s
	}
	return before.Accuracy, before.Seconds
}

// run runs one job.
func run(ctx context.Context, s settings) (r result, err error) {
	told, err := json.Marshal(s)
	if err != nil {
		return r, err
	}
	job := processes.Job{Workers: s.Workers, Servers: 1, Env: []string{settingsEnv + "=" + string(told), roleEnv + "=job"}}
	running, err := job.Start(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, running.End(err != nil)) }()
	for rank, w := range running.Workers {
		var own report
		line, err := w.Line()
		if err == nil {
			err = json.Unmarshal(line, &own)
		}
		if err != nil {
			return r, fmt.Errorf("worker %d: %w", rank, err)
		}
		r.Steps = append(r.Steps, own.Steps)
		r.Missed.Merge(&own.Missed)
		r.Lead.Merge(&own.Lead)
		if rank == 0 {
			r.Snapshots = own.Snapshots
		}
	}
	return r, nil
}
