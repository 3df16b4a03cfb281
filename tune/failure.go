package tune

import (
	"errors"
	"fmt"
	"syscall"
)

// A Failure is the class of what made a trial fail. Each has its own budget of
// further tries.
type Failure string

const (
	// UserCode is an error or a panic of the trainable.
	UserCode Failure = "user code"
	// OutOfMemory is memory that did not suffice, of the host or a GPU.
	OutOfMemory Failure = "out of memory"
	// NodeLost is a host, process or connection that went away.
	NodeLost Failure = "node lost"
	// Silent is a trial that did not report within Config.ReportTimeout.
	Silent Failure = "silent"
)

// Retries are budgets of further tries of one trial, by class of failure. Zero
// is the default, which is none but for NodeLost; below zero is none.
type Retries struct {
	UserCode    int
	OutOfMemory int
	NodeLost    int // default 3
	Silent      int
}

func (r Retries) budget(class Failure) int {
	n := 0
	switch class {
	case UserCode:
		n = r.UserCode
	case OutOfMemory:
		n = r.OutOfMemory
	case NodeLost:
		if n = r.NodeLost; n == 0 {
			n = 3
		}
	case Silent:
		n = r.Silent
	}
	return max(n, 0)
}

// A TrialError is the failure of one attempt, with its class.
type TrialError struct {
	Class Failure
	Err   error
}

func (e *TrialError) Error() string {
	if e.Err == nil {
		return string(e.Class)
	}
	return string(e.Class) + ": " + e.Err.Error()
}
func (e *TrialError) Unwrap() error { return e.Err }

// Fail gives an error that a trainable or a Runner returns a class. Of nil it is nil.
func Fail(class Failure, err error) error {
	if err == nil {
		return nil
	}
	return &TrialError{class, err}
}

var (
	// ErrStop in the chain of an error of Report tells the trainable to return: the
	// trial, or the study, is to end.
	ErrStop = errors.New("the trial is to stop")
	// ErrPause in the chain of an error of Report tells the trainable to return: the
	// trial may go on later, in a new attempt, from its checkpoint or another trial's.
	ErrPause = errors.New("the trial is to pause")
	// ErrDone is Study.Ask's: there are no more trials to run.
	ErrDone = errors.New("tune: the study is done")
	// ErrNoMetric is in the chain of errors about a metric that nobody reported,
	// or that is not clear among several.
	ErrNoMetric = errors.New("no such metric")
	// ErrExists is Run's and NewStudy's when the folder already holds a study and
	// Config.Resume does not say to go on with it.
	ErrExists = errors.New("the folder already holds a study")
	// ErrLocked is theirs when another process runs a search in the folder.
	ErrLocked = errors.New("another process runs a search in the folder")
)

// classOf returns the class of an attempt's error.
func classOf(err error) Failure {
	if e, ok := errors.AsType[*TrialError](err); ok {
		return e.Class
	}
	if errors.Is(err, syscall.ENOMEM) {
		return OutOfMemory
	}
	return UserCode
}

// panicked is the error of a trainable that panicked.
func panicked(value any, stack []byte) error {
	return Fail(UserCode, fmt.Errorf("panic: %v\n%s", value, stack))
}

// unclassed is the message of an attempt's error without its class, which stands beside it. The error may be of any type of the
// user's.
func unclassed(err error) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprintf("an error of type %T, whose message panics: %v", err, v)
		}
	}()
	if e, ok := err.(*TrialError); ok && e.Err != nil {
		return e.Err.Error()
	}
	return err.Error()
}
