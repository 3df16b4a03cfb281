package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/bench/internal/launched"
	"github.com/paragon-train/paragon/internal/control"
)

// A job is one of launch that runs.
type job struct {
	*launched.Job
	metrics atomic.Pointer[string] // their address; nil: launch has not said it
}

// start starts launch and returns once the job trains.
func start(ctx context.Context, c *config) (j *job, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "paragon-telemetry")
	if err != nil {
		return nil, err
	}
	j = &job{}
	j.Job, err = launched.Start(ctx, launched.Config{Dir: dir, Launch: c.launch, Show: c.verbose, Each: j.read,
		Args: []string{"-n", "2", "-s", "2", "--metrics-listen", "127.0.0.1:0", "--status-listen", "127.0.0.1:0", "--", exe, "worker"}})
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	err = j.Until(ctx, "the job trains", func() (bool, error) {
		var t control.Telemetry
		if err := j.Ask(ctx, control.Request{Op: control.OpTelemetry, Metrics: []string{"steps"}}, &t); err != nil {
			return false, nil // it is forming
		}
		training := 0
		for _, n := range t.Nodes {
			if n.Role == control.Worker && len(n.Values) == 1 && float64(n.Values[0]) >= 20 { // not the first ones, which take longer
				training++
			}
		}
		return training == 2 && j.metrics.Load() != nil, nil
	})
	if err != nil {
		err = j.Explain(err)
		j.Close()
	}
	return j, err
}

var metricsLine = regexp.MustCompile(`metrics for Prometheus: (http://\S+/metrics)`)

// read reads a line of launch.
func (j *job) read(line string) (taken bool) {
	if m := metricsLine.FindStringSubmatch(line); m != nil {
		j.metrics.Store(&m[1])
	}
	return false
}

// page is the address of the live page, and the key of its links.
func (j *job) page() (url string, key []byte, err error) {
	text, err := j.Credential("PARAGON_PAGE_KEY")
	if err == nil {
		url, err = j.Credential("PARAGON_PAGE_URL")
	}
	if err == nil && (url == "" || text == "") {
		err = errors.New("the job has no live page")
	}
	if err == nil {
		key, err = base64.StdEncoding.DecodeString(text)
	}
	return url, key, err
}

// series are the workers' steps of each second so far.
func (j *job) series(ctx context.Context) (points, error) {
	var s control.Series
	err := j.Ask(ctx, control.Request{Op: control.OpSeries, Metrics: []string{"steps", "step_seconds"}, SinceMillis: time.Now().Add(-remembered).UnixMilli(), Points: control.MaxPoints}, &s)
	switch {
	case err != nil:
		return points{}, err
	case s.StepMillis != 1000 || s.LeftOut > 0 || len(s.Columns) != 2 || s.Columns[0].Metric != "steps":
		return points{}, fmt.Errorf("the scheduler has points each %d ms of the columns %v, and left %d nodes out; want each second of steps and step_seconds of all", s.StepMillis, s.Columns, s.LeftOut)
	}
	p := points{from: time.UnixMilli(s.FromMillis), every: time.Second}
	for _, n := range s.Nodes {
		var w workerPoints
		for i := range n.Values[0] {
			w.steps = append(w.steps, float64(n.Values[0][i]))
			w.seconds = append(w.seconds, float64(n.Values[1][i]))
		}
		if len(w.steps) > 0 && !math.IsNaN(w.steps[len(w.steps)-1]) { // servers have none
			p.workers = append(p.workers, w)
		}
	}
	if len(p.workers) != 2 {
		return points{}, fmt.Errorf("%d processes have reported steps, want 2 workers", len(p.workers))
	}
	return p, nil
}
