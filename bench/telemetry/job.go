package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/cluster"
	"github.com/paragon-train/paragon/internal/control"
	jobrecord "github.com/paragon-train/paragon/internal/record"
)

// A job is one of launch that runs.
type job struct {
	dir    string
	launch *exec.Cmd
	ended  chan struct{}
	err    error // of launch, once ended
	said   jobOutput
	where  jobrecord.Record
}

// start starts launch and returns once the job trains.
func start(ctx context.Context, c *config) (j *job, err error) {
	j = &job{ended: make(chan struct{})}
	if j.dir, err = os.MkdirTemp("", "paragon-telemetry"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = j.explain(err)
			j.close()
		}
	}()
	exe, err := os.Executable()
	if err != nil {
		return j, err
	}
	j.launch = exec.CommandContext(ctx, c.launch, "-n", "2", "-s", "2", "--metrics-listen", "127.0.0.1:0", "--status-listen", "127.0.0.1:0", "--", exe, "worker")
	if j.launch.Path, err = filepath.Abs(j.launch.Path); err != nil {
		return j, err
	}
	j.launch.Dir = j.dir
	j.launch.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+j.dir, "HOME="+j.dir)
	j.launch.Cancel = func() error { return j.launch.Process.Signal(os.Interrupt) }
	j.launch.WaitDelay = 20 * time.Second
	var out io.Writer = &j.said
	if c.verbose {
		out = io.MultiWriter(&j.said, os.Stderr)
	}
	j.launch.Stdout, j.launch.Stderr = out, out
	if err := j.launch.Start(); err != nil {
		return j, err
	}
	go func() {
		j.err = j.launch.Wait()
		close(j.ended)
	}()
	dir, err := jobrecord.Dir(func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": j.dir}[name] })
	if err != nil {
		return j, err
	}
	return j, j.until(ctx, "the job trains", func() (bool, error) {
		if there, err := j.find(dir); err != nil || !there {
			return false, err
		}
		var t control.Telemetry
		if err := j.ask(ctx, control.Request{Op: control.OpTelemetry, Metrics: []string{"steps"}}, &t); err != nil {
			return false, nil // it is forming
		}
		training := 0
		for _, n := range t.Nodes {
			if n.Role == control.Worker && len(n.Values) == 1 && float64(n.Values[0]) >= 20 { // not the first ones, which take longer
				training++
			}
		}
		return training == 2 && j.said.metrics() != "", nil
	})
}

// find reports whether launch has written where its job is.
func (j *job) find(dir string) (there bool, err error) {
	j.where, err = jobrecord.Find(dir, "", "")
	if errors.Is(err, jobrecord.ErrNone) {
		return false, nil
	}
	if err == nil {
		err = j.where.Open()
	}
	return err == nil, err
}

// close ends the job.
func (j *job) close() {
	if j.launch != nil && j.launch.Process != nil {
		_ = j.launch.Process.Signal(os.Interrupt)
		<-j.ended
	}
	os.RemoveAll(j.dir)
}

// explain adds to an error what launch said last.
func (j *job) explain(err error) error {
	if tail := j.said.tail(); tail != "" && err != nil {
		return fmt.Errorf("%w; the last lines of launch:\n%s", err, tail)
	}
	return err
}

// patience bounds each wait.
const patience = 2 * time.Minute

// until waits for something.
func (j *job) until(ctx context.Context, what string, ok func() (bool, error)) error {
	for begun := time.Now(); ; {
		switch done, err := ok(); {
		case err != nil:
			return fmt.Errorf("until %s: %w", what, err)
		case done:
			return nil
		case time.Since(begun) > patience:
			return fmt.Errorf("until %s: not within %v", what, patience)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-j.ended:
			return fmt.Errorf("until %s: launch has ended: %v", what, j.err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// credential is one of the job's, by name; empty: there is none.
func (j *job) credential(name string) string {
	for _, v := range j.where.Credentials {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// page is the address of the live page, and the key of its links.
func (j *job) page() (url string, key []byte) {
	key, _ = base64.StdEncoding.DecodeString(j.credential("PARAGON_PAGE_KEY"))
	return j.credential("PARAGON_PAGE_URL"), key
}

// ask asks the scheduler as launch ctl does, and reads the answer.
func (j *job) ask(ctx context.Context, q control.Request, answer control.Answer) error {
	tc, err := cluster.TransportFromEnv(j.credential)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = control.Ask(ctx, func(ctx context.Context, request []byte) ([]byte, error) {
		return cluster.Control(ctx, j.where.Scheduler, tc, request)
	}, q, answer)
	return err
}

// series are the workers' steps of each second so far.
func (j *job) series(ctx context.Context) (points, error) {
	var s control.Series
	err := j.ask(ctx, control.Request{Op: control.OpSeries, Metrics: []string{"steps", "step_seconds"}, SinceMillis: time.Now().Add(-remembered).UnixMilli(), Points: control.MaxPoints}, &s)
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
