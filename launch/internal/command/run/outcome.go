package run

import (
	"errors"
	"io"
	"syscall"

	"github.com/paragon-train/paragon/internal/hosts/lines"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/job"
)

// An outcome is how the job ended.
type outcome struct {
	job.Result

	// err is why the job could not be started or was not left clean, or nil.
	err error

	// metrics are the newest; nil: none came.
	metrics *control.Metrics
}

// exitCode is the code that launch ends with after runJob has returned err. An error that nobody
// has printed, and an output that was lost, become the outcome's own reason.
func (o *outcome) exitCode(err error, stdout io.Writer) int {
	var exit command.ExitError
	switch {
	case errors.As(err, &exit):
		return int(exit)
	case err != nil:
		o.err = err
		return 1
	}
	if s, ok := stdout.(*command.Output); ok && s.Code(0) != 0 {
		o.err = errors.New("the standard output could not be written")
		return s.Code(0)
	}
	return 0
}

// report is what --result writes of the outcome.
func (o *outcome) report(code int) *control.Result {
	r := o.Report(o.err, code)
	r.Metrics = o.metrics
	return r
}

// endedFromOutside reports whether a job that ended with this code did not fail by itself: it
// stopped with a checkpoint, or a process was ended by SIGTERM or killed. Whoever started launch
// may start it again, as Kubernetes does (the rules of package kubernetes have the same codes).
func endedFromOutside(code int) bool {
	return code == control.ExitCheckpointed || code == 128+int(syscall.SIGTERM) || code == 128+int(syscall.SIGKILL)
}

// A printer writes to the launcher's standard error between the lines of the processes.
type printer struct{ out *lines.Merger }

// Write implements io.Writer for whole lines.
func (p printer) Write(b []byte) (int, error) {
	p.out.Print(string(b))
	return len(b), nil
}
