package tune

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/paragon-train/paragon/tune/jobs"
)

// A Trainable trains with parameters p and reports to r. It returns nil when the
// training is complete, or the error of Report. It should return when ctx ends,
// which it does with the study. It runs concurrently with other trials.
type Trainable func(ctx context.Context, p Params, r *Reporter) error

// Resources are what one trial needs. The zero value is one slot of this process.
type Resources = jobs.Resources

// An Attempt is one run of a trial: its first, a retry or a continuation.
type Attempt struct {
	Study string
	Trial int
	// Number counts from 1.
	Number int
	Params Params
	Seed   uint64
	// Slot is the index of the slot, from 0 to Config.Parallel-1.
	Slot      int
	Resources Resources
	// Folder is the trial's own, for logs and results; it is made when first asked
	// for by Reporter.Folder. "" if the study keeps none.
	Folder string
	// Place is the one that the Runner's Acquire returned, or nil.
	Place Place
	// Checkpoint is the folder of a command's checkpoint (Jobs.Checkpoints), or "". With hosts
	// it is a text that stands for the folder in the words of the command, and that a shell
	// needs within single quotes.
	Checkpoint string

	// program, metric and grace are the Config's fields of these names.
	program string
	metric  string
	grace   time.Duration
	// elastic says that an Allocator gives the attempt its replicas, at least so many.
	elastic bool
	least   int
	// pulse is where a Runner that copies checkpoints says that the attempt is alive.
	pulse *pulse
}

// A Runner runs attempts of trials: in this process, as commands, as distributed
// jobs. Its methods are called from several goroutines.
type Runner interface {
	// Run runs one attempt until it has ended and leaves nothing of it behind. It reports to
	// r; of a distributed trial rank 0 counts. It passes an error of r.Report on to the
	// trial, and returns it once the trial has ended. Fail gives an error a class; without
	// it the class is UserCode. The attempt must end when ctx does.
	Run(ctx context.Context, a Attempt, r *Reporter) error
}

// InProcess is the Runner that calls the trainable in this process. A panic is a
// failure of class UserCode.
func InProcess(f Trainable) Runner { return inProcess{f} }

// inProcess is the Runner that InProcess returns.
type inProcess struct{ f Trainable }

// Run implements Runner.
func (p inProcess) Run(ctx context.Context, a Attempt, r *Reporter) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v, debug.Stack())
		}
	}()
	if p.f == nil {
		return fmt.Errorf("tune: there is no trainable")
	}
	return p.f(ctx, a.Params, r)
}

// A Place is where one attempt can run.
type Place interface {
	// Location is the place as tables and logs show it: "local", "10.0.0.7:gpu0".
	Location() string
	// Release frees the place, after the attempt or unused.
	Release()
}
