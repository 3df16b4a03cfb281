package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/cluster"
	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/record"
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
	dir    string
	launch *exec.Cmd
	ended  chan struct{}
	err    error // of launch, once ended
	said   jobOutput
	where  record.Record
}

// start starts launch and returns once the job trains.
func start(ctx context.Context, c *config) (j *job, err error) {
	j = &job{ended: make(chan struct{})}
	if j.dir, err = os.MkdirTemp("", "paragon-churn"); err != nil {
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
	args := []string{"-n", fmt.Sprint(workers), "-s", fmt.Sprint(servers), "--env", jobEnv, "--env", stepEnv}
	if c.servers > 0 {
		args = append(args, "--backups", "1")
	} else {
		args = append(args, "--elastic-training-enabled")
	}
	if c.state {
		args = append(args, "--state", j.state())
	}
	j.launch = exec.CommandContext(ctx, c.launch, append(args, "--", exe, "worker")...)
	if j.launch.Path, err = filepath.Abs(j.launch.Path); err != nil {
		return j, err
	}
	j.launch.Dir = j.dir
	j.launch.Env = append(os.Environ(), jobEnv+"="+j.dir, stepEnv+"="+c.step.String(), "XDG_RUNTIME_DIR="+j.dir, "HOME="+j.dir, "GODEBUG=gctrace=1")
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
	dir, err := record.Dir(func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": j.dir}[name] })
	if err != nil {
		return j, err
	}
	return j, j.until(ctx, "the job trains", func() (bool, error) {
		if there, err := j.find(dir); err != nil || !there {
			return false, err
		}
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
}

// find reports whether launch has written where its job is.
func (j *job) find(dir string) (there bool, err error) {
	j.where, err = record.Find(dir, "", "")
	if errors.Is(err, record.ErrNone) {
		return false, nil
	}
	if err == nil {
		err = j.where.Open()
	}
	return err == nil, err
}

// close ends the job.
func (j *job) close() {
	if j.launch.Process != nil {
		_ = j.launch.Process.Signal(os.Interrupt)
		<-j.ended
	}
	os.RemoveAll(j.dir)
}

// state is the folder of the scheduler's journal.
func (j *job) state() string { return filepath.Join(j.dir, "state") }

// journal is the size of the scheduler's journal, 0 without one.
func (j *job) journal() (size int64, err error) {
	err = filepath.WalkDir(j.state(), func(_ string, d fs.DirEntry, err error) error {
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
		case <-time.After(10 * time.Millisecond):
		case <-j.ended:
			return fmt.Errorf("until %s: launch has ended: %v", what, j.err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ask asks the scheduler as launch ctl does, and reads the answer.
func (j *job) ask(ctx context.Context, q control.Request, answer control.Answer) error {
	tc, err := cluster.TransportFromEnv(func(name string) string {
		for _, v := range j.where.Credentials {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	})
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

// act has something done, asking again where that may help later. It returns the rank of a server that was asked for.
func (j *job) act(ctx context.Context, q control.Request) (rank uint32, err error) {
	err = j.until(ctx, "the scheduler agrees to "+q.Op, func() (bool, error) {
		var done control.Done
		err := j.ask(ctx, q, &done)
		if errors.Is(err, control.ErrLater) {
			return false, nil
		}
		rank = done.Rank
		return err == nil, err
	})
	return rank, err
}

func (j *job) status(ctx context.Context) (s control.Status, err error) {
	return s, j.ask(ctx, control.Request{Op: control.OpStatus}, &s)
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
	err := j.until(ctx, fmt.Sprintf("%d servers share the shards", want), func() (bool, error) {
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
		err := j.until(ctx, fmt.Sprintf("%d workers train", x.want), func() (bool, error) {
			s, err := j.status(ctx)
			return err == nil && s.Workers == x.want && len(s.Nodes) == x.want+servers && s.Change == nil, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
