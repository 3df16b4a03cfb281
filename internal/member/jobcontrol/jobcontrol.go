// Package jobcontrol asks the schedulers of the jobs that run on this machine.
package jobcontrol

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/internal/store/transport"
)

// ErrNoJob is in the chain of the error of Of while the launcher has not started a scheduler, and
// when its job is over.
var ErrNoJob = errors.New("it runs no job")

// A Job is a job that a launcher of this machine runs.
type Job struct{ record.Record }

// Of finds the job of the launcher with this process ID.
func Of(launcher int) (*Job, error) {
	dir, err := record.Dir(os.Getenv)
	if err != nil {
		return nil, err
	}
	all, err := record.All(dir)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.PID == launcher {
			if err := r.Open(); err != nil {
				return nil, err
			}
			return &Job{r}, nil
		}
	}
	return nil, fmt.Errorf("launch: process %d: %w", launcher, ErrNoJob)
}

// answerTime bounds a question, besides the time for which it asks the scheduler to hold the
// answer.
const answerTime = 5 * time.Second

// Ask asks the job's scheduler once. control.ErrRefused is in the error's chain if the scheduler
// refused.
func (j *Job) Ask(ctx context.Context, q control.Request, into control.Answer) (raw []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime+time.Duration(q.WaitMillis)*time.Millisecond)
	defer cancel()
	return control.Ask(ctx, func(ctx context.Context, request []byte) ([]byte, error) {
		return Carry(ctx, j.Scheduler, j.Credentials, request)
	}, q, into)
}

// Carry carries a request to the scheduler at addr. Credentials are the variables with the job's
// secrets.
func Carry(ctx context.Context, addr string, credentials []string, request []byte) ([]byte, error) {
	cfg, err := cluster.TransportFromEnv(func(name string) string {
		for _, v := range credentials {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	})
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	answer, err := cluster.Control(ctx, addr, cfg, request)
	var refusal *transport.Refusal
	if errors.As(err, &refusal) {
		return nil, fmt.Errorf("%w: %w", control.ErrRefused, err)
	}
	return answer, err
}
