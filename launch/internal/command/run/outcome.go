package run

import (
	"syscall"

	"github.com/paragon-train/paragon/internal/hosts/lines"
	"github.com/paragon-train/paragon/internal/member/control"
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
