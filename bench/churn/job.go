package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/bench/internal/launched"
	"github.com/paragon-train/paragon/internal/control"
)

// The processes that stay.
const workers, servers = 2, 2

// guest is the host on which workers come and go: this machine by another name.
const guest = "127.0.0.2"

// jobEnv marks the processes of the job; its value is the job's folder.
const (
	jobEnv  = "PARAGON_CHURN_JOB"
	stepEnv = "PARAGON_CHURN_STEP"
)

// A job is one of launch that runs.
type job struct {
	*launched.Job
	heaps heaps
}

// start starts launch and returns once the job trains.
func start(ctx context.Context, c *config) (j *job, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "paragon-churn")
	if err != nil {
		return nil, err
	}
	args := []string{"-n", fmt.Sprint(workers), "-s", fmt.Sprint(servers), "--env", jobEnv, "--env", stepEnv}
	if c.servers > 0 {
		args = append(args, "--backups", "1")
	} else {
		args = append(args, "--elastic-training-enabled")
	}
	if c.state {
		args = append(args, "--state", stateOf(dir))
	}
	j = &job{}
	j.Job, err = launched.Start(ctx, launched.Config{Dir: dir, Launch: c.launch, Show: c.verbose, Each: j.heaps.read,
		Args: append(args, "--", exe, "worker"), Env: []string{jobEnv + "=" + dir, stepEnv + "=" + c.step.String(), "GODEBUG=gctrace=1"}})
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	err = j.Until(ctx, "the job trains", func() (bool, error) {
		s, err := j.status(ctx)
		if err != nil {
			return false, nil // it is forming
		}
		steps := 0
		for _, n := range s.Nodes {
			if n.Role == "worker" && n.Step > 0 {
				steps++
			}
		}
		return steps == workers, nil
	})
	if err != nil {
		err = j.Explain(err)
		j.Close()
	}
	return j, err
}

// stateOf is the folder of the scheduler's journal, below the job's folder.
func stateOf(dir string) string { return filepath.Join(dir, "state") }

// journal is the size of the scheduler's journal, 0 without one.
func (j *job) journal() (size int64, err error) {
	err = filepath.WalkDir(stateOf(j.Dir), func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				size += info.Size()
			}
		}
		return err
	})
	return size, err
}

// act has something done, asking again where that may help later. It returns the rank of a server that was asked for.
func (j *job) act(ctx context.Context, q control.Request) (rank uint32, err error) {
	err = j.Until(ctx, "the scheduler agrees to "+q.Op, func() (bool, error) {
		var done control.Done
		err := j.Ask(ctx, q, &done)
		if errors.Is(err, control.ErrLater) {
			return false, nil
		}
		rank = done.Rank
		return err == nil, err
	})
	return rank, err
}

func (j *job) status(ctx context.Context) (s control.Status, err error) {
	return s, j.Ask(ctx, control.Request{Op: control.OpStatus}, &s)
}

// server is a round: a server comes, has its share of the shards, and goes.
func (j *job) server(ctx context.Context) error {
	rank, err := j.act(ctx, control.Request{Op: control.OpAddServer})
	if err != nil {
		return err
	}
	if err := j.settled(ctx, servers+1); err != nil {
		return err
	}
	if _, err := j.act(ctx, control.Request{Op: control.OpRemoveServer, Rank: int(rank)}); err != nil {
		return err
	}
	return j.settled(ctx, servers)
}

// settled waits until so many servers have shards, and every shard a whole backup.
func (j *job) settled(ctx context.Context, want int) error {
	var s control.Status
	err := j.Until(ctx, fmt.Sprintf("%d servers share the shards", want), func() (bool, error) {
		var err error
		if s, err = j.status(ctx); err != nil {
			return false, err
		}
		here := 0
		for _, x := range s.Servers {
			if x.Filling > 0 || x.Status == "HERE" && x.Shards == 0 {
				return false, nil
			}
			if x.Status == "HERE" {
				here++
			}
		}
		return here == want && s.Phase == "running", nil
	})
	if err != nil {
		return fmt.Errorf("%w; they are %+v", err, s.Servers)
	}
	return nil
}

// worker is a round: a host comes with a worker, which takes part, and goes.
func (j *job) worker(ctx context.Context) error {
	for _, x := range []struct {
		op   string
		want int
	}{{"add", workers + 1}, {"remove", workers}} {
		if _, err := j.act(ctx, control.Request{Op: x.op, Host: guest}); err != nil {
			return err
		}
		err := j.Until(ctx, fmt.Sprintf("%d workers train", x.want), func() (bool, error) {
			s, err := j.status(ctx)
			return err == nil && s.Workers == x.want && len(s.Nodes) == x.want+servers && s.Change == nil, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
