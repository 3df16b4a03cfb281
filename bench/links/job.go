package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/paragon-train/paragon/bench/internal/processes"
)

// What a process of a job is given besides the job's own variables.
const (
	settingsEnv = "PARAGON_BENCH_LINKS" // settings, JSON
	deviceEnv   = "PARAGON_BENCH_DEVICE"
)

// A turn is rank 0's report of some steps with one compression.
type turn struct {
	Way      int // index in settings.Ways
	Took     time.Duration
	Up, Down uint64 // bytes that left the workers' end of the link, and that came in
}

// runJob runs a job on both ends of a link and returns the turns of rank 0.
func runJob(ctx context.Context, l *link, sums string, s *settings) (turns []turn, err error) {
	told, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	running, err := processes.Job{
		Workers: s.Workers, Servers: 1,
		Env: []string{settingsEnv + "=" + string(told), deviceEnv + "=" + l.device(0), "PARAGON_HOST_SUMS=" + sums},
		Command: func(role string, rank int) []string {
			if role == "worker" {
				return []string{"ip", "netns", "exec", l.workers[rank*s.Hosts/s.Workers], exe}
			}
			return []string{"ip", "netns", "exec", l.servers, exe}
		},
		Address: func(role string, rank int) string {
			if role == "worker" {
				return workersAddress(rank * s.Hosts / s.Workers)
			}
			return serversAddress
		},
	}.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, running.End(err != nil)) }()
	for range len(s.Ways) * s.Count {
		var t turn
		line, err := running.Workers[0].Line()
		if err == nil {
			err = json.Unmarshal(line, &t)
		}
		if err != nil {
			return turns, fmt.Errorf("worker 0 told of %d turns, want %d: %w", len(turns), len(s.Ways)*s.Count, err)
		}
		turns = append(turns, t)
		fmt.Fprintf(os.Stderr, "%v: %v a step\n", s.Ways[t.Way], (t.Took / time.Duration(s.Steps)).Round(time.Millisecond))
	}
	return turns, nil
}
