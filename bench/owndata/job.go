package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/paragon-train/paragon/bench/internal/launched"
)

// A job is one that launch runs.
type job struct {
	*launched.Job
	settings settings
}

// start writes the settings and starts launch.
func (s *shower) start(ctx context.Context, set settings, resume bool, args ...string) (*job, error) {
	for _, d := range []string{set.Dir, set.events(), set.checkpoints()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(set)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(set.Dir, "settings.json")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// launch's own folder goes with the job; checkpoints stay for the next one.
	dir, err := os.MkdirTemp(set.Dir, "launch")
	if err != nil {
		return nil, err
	}
	env := []string{settingsEnv + "=" + file, "PARAGON_HEARTBEAT=200ms", "PARAGON_LEASE=3s"}
	if resume {
		env = append(env, "PARAGON_RESUME=1")
	}
	j, err := launched.Start(ctx, launched.Config{Dir: dir, Launch: s.launch, Args: append(args, "--", exe), Env: env, Show: s.show})
	if err != nil {
		return nil, err
	}
	return &job{j, set}, nil
}

// wait waits until the job has ended, with that exit code.
func (j *job) wait(ctx context.Context, code int) error {
	select {
	case <-j.Ended():
	case <-ctx.Done():
		return ctx.Err()
	}
	got := 0
	var exit *exec.ExitError
	if errors.As(j.Err(), &exit) {
		got = exit.ExitCode()
	} else if j.Err() != nil {
		return j.Err()
	}
	if got != code {
		return j.Explain(fmt.Errorf("launch ended with exit code %d, want %d", got, code))
	}
	return nil
}

// told reads the lines that the workers have written to their files so far.
func (j *job) told() (all []event, err error) {
	files, err := filepath.Glob(filepath.Join(j.settings.events(), "*.jsonl"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			var e event

			// The last line of a killed process may be cut short, and does not count.
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				all = append(all, e)
			}
		}
		if err := errors.Join(lines.Err(), f.Close()); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// until waits until so many steps are done by at least so many workers.
func (j *job) until(ctx context.Context, done, workers int) error {
	return j.Until(ctx, fmt.Sprintf("%d steps are done, by %d workers", done, workers), func() (bool, error) {
		all, err := j.told()
		for _, e := range all {
			if e.Done >= done && e.Workers >= workers {
				return true, err
			}
		}
		return false, err
	})
}

// A summary is what the workers told in all.
type summary struct {
	kills, most, steps int
	ends               []*ending
}

func (j *job) summary() (s summary, err error) {
	all, err := j.told()
	for _, e := range all {
		if e.Killed {
			s.kills++
		}
		if e.End != nil {
			s.ends = append(s.ends, e.End)
		}
		s.most, s.steps = max(s.most, e.Workers), max(s.steps, e.Done)
	}
	if err == nil && len(s.ends) == 0 {
		err = errors.New("no worker wrote that it trained to the end")
	}
	return s, err
}
