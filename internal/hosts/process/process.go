// Package process describes a process to start, and how it ended.
//
// A machine starts a Spec and returns a Handle for the running process. The Handle's Exit is
// available once the process and its process group are gone and its output has been delivered.
package process

import (
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
)

// A Spec is one process to be started. It travels to other hosts as JSON.
type Spec struct {
	// Name is for messages, such as "worker 0".
	Name string

	// Dir is the working directory; empty: it is the agent's.
	Dir string

	// Command is a program and its arguments. No shell reads them.
	Command []string

	// Self says that Command has arguments for the launch program itself.
	Self bool

	// Env are NAME=VALUE, added to the agent's environment. The last of a NAME counts.
	Env []string

	// Sharers is the number of processes that share the processors. If it is above 1 and nobody set
	// GOMAXPROCS, that becomes the number of processors divided by it, at least 1.
	Sharers int

	// GPUs are the only ones of its machine that the process sees, if it is not nil.
	GPUs *gpus.Want

	// CPUs is how many of its machine's processors the process runs on, or on all if there are
	// fewer; 0: on all.
	CPUs int

	// Report gives the process a pipe for reports (see ReportEnv).
	Report bool
}

// ReportEnv names the variable that holds the number of the file descriptor a process started with
// Report writes to.
const ReportEnv = "PARAGON_REPORT_FD"

// passedOn are the variables of PassedOn. PARAGON_RESUME is one of them so that it means the same
// on every host: launch lets a restart go on from any checkpoint where it is set.
var passedOn = []string{"OMP_NUM_THREADS", "KMP_AFFINITY", "LD_LIBRARY_PATH", "GOMAXPROCS", "GOMEMLIMIT", "GODEBUG", "PARAGON_RESUME"}

// PassedOn are the variables that processes on other hosts get where they are set here, as
// NAME=VALUE.
func PassedOn(lookup func(string) (string, bool)) (env []string) {
	for _, name := range passedOn {
		if v, ok := lookup(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// Output takes what a process writes. Each writer is called from one goroutine; nil drops it.
type Output struct {
	Stdout, Stderr, Report io.Writer

	// Started is called before any of the output is written, if it is not nil.
	Started func(pid int)
}

// An Exit is how a process ended.
type Exit struct {
	// Code is the exit code, if neither of the others is set.
	Code int

	Signal syscall.Signal // the signal that killed it

	// Err says why the process could not be started, or that its machine was lost.
	Err string

	// Lost says that the process was lost with its machine.
	Lost bool

	// Elapsed is the time from the process's start to its end.
	Elapsed time.Duration

	// Report is what the process said of its own end; the zero value: it said nothing.
	Report exitreport.Report
}

// Status is the exit status as a shell gives it: 128+n for signal n. The agent sets Code to 127 if
// the process could not be started, and to 255 if its machine was lost.
func (e Exit) Status() int {
	switch {
	case e.Signal != 0:
		return 128 + int(e.Signal)
	case e.Err != "" && e.Code == 0:
		return 255
	}
	return e.Code
}

// OK reports whether the process ended by itself with code 0.
func (e Exit) OK() bool { return e.Status() == 0 }

// Final reports whether the process failed, and said that no restart can mend what went wrong.
func (e Exit) Final() bool { return e.Report.Final() && !e.OK() }

func (e Exit) String() string {
	switch {
	case e.Err != "":
		return e.Err
	case e.Signal != 0:
		return fmt.Sprintf("signal %d (%s)", int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("exit %d", e.Code)
}

// A Handle is a process that was started. Its methods may be called together.
type Handle interface {
	PID() int
	// Signal sends a signal to the process and its group. It does not wait, and does nothing if
	// the process is gone.
	Signal(syscall.Signal)
	// Done is closed when the process has ended; Exit waits for that and says how it ended.
	Done() <-chan struct{}
	Exit() Exit
}
