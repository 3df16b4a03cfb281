package ctl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/jobcontrol"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/launch/internal/job"
)

// A controller asks the scheduler of one job.
type controller struct {
	// Record says where the job is. Its credentials authenticate requests, unless a launcher on
	// another machine carries them.
	record.Record

	// remote is nil if the job's launcher runs on this machine.
	remote *remoteLauncher
}

// findJob finds the job that the command is about, with record.Find or record.FindToChange.
func findJob(c *cli.Context, find func(dir, id, here string) (record.Record, error)) (*controller, error) {
	remote, err := findRemote(c)
	if err != nil {
		return nil, err
	}
	if remote != nil {
		r, err := remote.record(c.Context, c.String("job"))
		if err != nil {
			return nil, err
		}
		return &controller{r, remote}, nil
	}
	dir, err := record.Dir(os.Getenv)
	if err != nil {
		return nil, err
	}

	// The folder is only asked for where there are several jobs, so it may be missing.
	here, err := os.Getwd()
	if err != nil {
		here = ""
	}
	r, err := find(dir, c.String("job"), here)
	if err == nil {
		err = r.Open()
	}
	if err != nil {
		return nil, err
	}
	return &controller{r, nil}, nil
}

// ask puts a request, and reads the answer into a struct. raw is the answer as it came. It asks
// again until the scheduler answers: one that has died is started again within moments.
func (k *controller) ask(ctx context.Context, q control.Request, answer control.Answer) (raw []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, askFor+time.Duration(q.WaitMillis)*time.Millisecond)
	defer cancel()
	raw, err = job.Ask(ctx, k.carry, k.Scheduler, k.Credentials, q, answer)
	switch {
	case errors.Is(err, control.ErrRefused):
		return nil, fmt.Errorf("launch: job %s: %w", k.Job, err)
	case err != nil && k.remote != nil:
		return nil, k.remote.explain(err)
	case err != nil:
		return nil, fmt.Errorf("launch: job %s: its scheduler at %s does not answer: %w", k.Job, k.Scheduler, err)
	}
	return raw, nil
}

// askOnce puts a request once. A display that asks every second rather shows that there was no
// answer.
func (k *controller) askOnce(ctx context.Context, q control.Request, into control.Answer) (raw []byte, err error) {
	if k.remote == nil {
		j := jobcontrol.Job{Record: k.Record}
		return j.Ask(ctx, q, into)
	}
	ctx, cancel := context.WithTimeout(ctx, askFor+time.Duration(q.WaitMillis)*time.Millisecond)
	defer cancel()
	return control.Ask(ctx, func(ctx context.Context, request []byte) ([]byte, error) { return k.carry(ctx, "", nil, request) }, q, into)
}

// carry carries a request to the job's scheduler.
func (k *controller) carry(ctx context.Context, addr string, credentials []string, request []byte) ([]byte, error) {
	if k.remote == nil {
		return jobcontrol.Carry(ctx, addr, credentials, request)
	}
	return k.remote.client.Carry(ctx, k.Job, request)
}
