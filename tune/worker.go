package tune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/paragon-train/paragon/internal/hosts/affinity"
	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/tune/internal/checkpoints"
	"github.com/paragon-train/paragon/tune/internal/remote"
)

// attend runs the trainable as one worker of a trial whose search is another process.
func attend(ctx context.Context, search *remote.Client, f Trainable, cfg Config) (err error) {
	task := search.Task()
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v, debug.Stack())
		}
		done := remote.Done{}
		if err != nil {
			done = remote.Done{Error: err.Error(), Class: string(classOf(err)), Obeyed: asked(err)}
		}
		if told := search.Done(context.WithoutCancel(ctx), done); err == nil {
			err = told
		}
	}()
	name := cfg.Name
	if name == "" {
		name = defaultName
	}
	if name != task.Study {
		return fmt.Errorf("tune: this process is a worker of study %q, but its first Run is of study %q: a program whose trials are processes runs one study", task.Study, name)
	}
	if f == nil {
		return errors.New("tune: this process is a worker of a trial, but Run has no trainable")
	}
	if err := occupy(task); err != nil {
		return err
	}
	var p Params
	if err := json.Unmarshal(task.Params, &p); err != nil {
		return fmt.Errorf("tune: parameters of trial %d: %w", task.Trial, err)
	}
	to := &searchReports{search: search, ctx: ctx, trial: task.Trial}
	r := &Reporter{trial: task.Trial, attempt: task.Attempt, seed: task.Seed, restore: checkpoints.None(0), to: to}
	if task.Restore != nil {
		r.restore = checkpoints.Name{Trial: task.Restore.Donor, Step: task.Restore.Step}
		remove, err := to.fetch(task)
		if err != nil {
			return err
		}
		defer remove()
	}
	return f(ctx, p, r)
}

// occupy binds the process to the processors and GPUs that the search allocated to it.
func occupy(task remote.Task) error {
	if len(task.CPUs) > 0 {
		if err := affinity.Process(task.CPUs); err != nil {
			return fmt.Errorf("tune: trial %d: %w", task.Trial, err)
		}
		runtime.GOMAXPROCS(len(task.CPUs))
	}
	if task.GPUs != nil {
		return os.Setenv(gpus.Variable, gpus.Visible(task.GPUs))
	}
	return nil
}

// A TrialEnded is the error of Run in a process of a trial: the trainable has run, and the process
// should exit.
type TrialEnded struct {
	// Err is nil if the trial succeeded.
	Err error
}

func (e *TrialEnded) Error() string {
	if e.Err == nil {
		return "tune: this process was a worker of a trial, which succeeded"
	}
	return e.Err.Error()
}

func (e *TrialEnded) Unwrap() error { return e.Err }

// trialEnded is Run's error after the trainable returned err. A trial that ended because it was
// asked to has succeeded.
func trialEnded(err error) *TrialEnded {
	if asked(err) {
		err = nil
	}
	return &TrialEnded{err}
}

// asked says whether a worker ended because it was asked to: by an answer to a report or, in an
// elastic trial, since other trials get its slot.
func asked(err error) bool {
	return errors.Is(err, ErrStop) || errors.Is(err, ErrPause) || errors.Is(err, cluster.ErrRemoved)
}

// ExitCode is the exit code of a program after Run: 0 without an error, and in a process of a trial
// that succeeded; else 1.
//
//	result, err := tune.Run(ctx, train, cfg)
//	if code := tune.ExitCode(err); code != 0 {
//		fmt.Fprintln(os.Stderr, err)
//		os.Exit(code)
//	}
//	if err != nil {
//		return // a process of a trial, which succeeded
//	}
func ExitCode(err error) int {
	var ended *TrialEnded
	if err == nil || errors.As(err, &ended) && ended.Err == nil {
		return 0
	}
	return 1
}
