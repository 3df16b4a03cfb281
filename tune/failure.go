package tune

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/tune/internal/studydir"
)

// A Failure is the class of a trial's failure. Each class has its own budget of
// retries.
type Failure string

const (
	// UserCode is an error or a panic of the trainable.
	UserCode Failure = "user code"
	// OutOfMemory is a lack of memory on the host or a GPU.
	OutOfMemory Failure = "out of memory"
	// NodeLost is a lost host, process or connection.
	NodeLost Failure = "node lost"
	// HostUnreachable is an attempt that did not begin, since a host could not be reached. It
	// is retried elsewhere, up to 100 times.
	HostUnreachable Failure = "host unreachable"
	// Silent is a trial that did not report within Config.ReportTimeout.
	Silent Failure = "silent"
	// Final is an error of which the program says that no retry can mend it: a wrong flag, a
	// checkpoint of another model, a missing file (kvstore.ErrFinal). It is never retried.
	Final Failure = "final"
)

// Retries are the numbers of retries of one trial, by class of failure. Zero is
// the default: none, and 3 for NodeLost. Below zero is none. Final has none in any case.
type Retries struct {
	UserCode    int
	OutOfMemory int
	NodeLost    int // default 3
	Silent      int
}

// unreachableRetries bounds what hosts cost a trial that come and go, and never let it begin.
const unreachableRetries = 100

// budget is how often a trial is tried again after failures of a class.
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
	case HostUnreachable:
		n = unreachableRetries
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

// Error is the class with the error.
func (e *TrialError) Error() string {
	if e.Err == nil {
		return string(e.Class)
	}
	return string(e.Class) + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *TrialError) Unwrap() error { return e.Err }

// Fail gives an error of a trainable or a Runner a class. Fail of nil is nil.
func Fail(class Failure, err error) error {
	if err == nil {
		return nil
	}
	return &TrialError{class, err}
}

var (
	// ErrStop in the chain of an error of Report asks the trainable to return: the
	// trial or the study ends.
	ErrStop = errors.New("the trial is to stop")
	// ErrPause in the chain of an error of Report asks the trainable to return: the
	// trial may continue later, in a new attempt, from its checkpoint or another trial's.
	ErrPause = errors.New("the trial is to pause")
	// ErrDone is returned by Study.Ask: there are no more trials to run.
	ErrDone = errors.New("tune: the study is done")
	// ErrNoMetric is in the chain of errors about a metric that no trial reported,
	// or that is ambiguous.
	ErrNoMetric = errors.New("no such metric")
	// ErrExists is returned by Run and NewStudy when the folder already holds a study and
	// Config.Resume does not allow to resume it.
	ErrExists = errors.New("the folder already holds a study")
	// ErrLocked is returned by them when another process runs a search in the folder.
	ErrLocked = studydir.ErrLocked
)

// classOf returns the class of an attempt's error.
func classOf(err error) Failure {
	if e, ok := errors.AsType[*TrialError](err); ok {
		return e.Class
	}
	if errors.Is(err, exitreport.ErrFinal) {
		return Final
	}
	if errors.Is(err, syscall.ENOMEM) {
		return OutOfMemory
	}
	return UserCode
}

// ofProgram says whether the trial's own program has failed, whatever it ran on.
func (f Failure) ofProgram() bool { return f == UserCode || f == Final }

// firstLine is a message without the stack of a panic, for an error of one line.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// panicked is the error of a trainable that panicked.
func panicked(value any, stack []byte) error {
	return Fail(UserCode, fmt.Errorf("panic: %v\n%s", value, stack))
}

// unclassed is the message of an attempt's error without its class, which stands beside it. The
// error may be of any type of the user's.
func unclassed(err error) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprintf("an error of type %T, whose message panics: %v", err, v)
		}
	}()
	if e, ok := err.(*TrialError); ok && e.Err != nil { //nolint:errorlint // text around a class that is further in would be lost
		return e.Err.Error()
	}
	return err.Error()
}

var (
	// errSilent is the cause when an attempt is cancelled because it did not report.
	errSilent = errors.New("no report")
	// errExited is the error of a trainable that ended its goroutine.
	errExited = errors.New("the trainable ended its goroutine instead of returning (runtime.Goexit, or FailNow of a test)")
	// errOver is the cause when an attempt is cancelled because its study is over.
	errOver = errors.New("the study is over")
	// ErrNoResult is returned by Run when no trial has a finite value of the metric.
	ErrNoResult = errors.New("no trial has a result")
)
