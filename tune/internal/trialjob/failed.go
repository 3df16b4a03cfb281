package trialjob

import "errors"

// A Class is the class of an attempt's failure, as tune.Failure has it.
type Class string

const (
	UserCode        Class = "user code"
	OutOfMemory     Class = "out of memory"
	NodeLost        Class = "node lost"
	HostUnreachable Class = "host unreachable"
	Final           Class = "final"
)

// Failed is the failure of an attempt.
type Failed struct {
	Class Class
	Err   error
}

// Error names the class first.
func (f *Failed) Error() string { return string(f.Class) + ": " + f.Err.Error() }

func (f *Failed) Unwrap() error { return f.Err }

// fail gives an error a class.
func fail(class Class, err error) error { return &Failed{class, err} }

// ErrObeyed is Run's error if the attempt ended because an answer of the search asked it to.
var ErrObeyed = errors.New("the attempt returned when asked to")

// NoReport begins the error of a trial that returned and never reported.
const NoReport = "it returned without a report"
