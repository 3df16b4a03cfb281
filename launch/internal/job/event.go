package job

import (
	"syscall"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// An event is something that happened: one of the types below.
type event any

type (
	// connected answers connect and checkHost. Without an error there is a machine that has the
	// number id: address is how others reach it, launcher how it sees the launcher.
	connected struct {
		id                int
		address, launcher string
		err               error
	}
	// machineLost says that the connection to a machine is lost. It comes before the ends of
	// the processes that were lost with it.
	machineLost struct{ machine int }
	// noticed is a notice that a machine's host is about to be taken away.
	noticed struct {
		machine int
		agent.Notice
	}
	// machineClosed answers closeMachine.
	machineClosed struct {
		machine int
		err     error
	}
	// addressChosen answers chooseAddress.
	addressChosen struct {
		address string
		err     error
	}
	// announced answers announce.
	announced struct{ err error }

	// started and startFailed answer startProcess.
	started struct {
		process uint32
		pid     int
	}
	startFailed struct {
		process uint32
		err     error
	}
	// ended comes once for every process that was started, when its output has been read.
	ended struct {
		process uint32
		exit    process.Exit
		// last is its last line of output.
		last string
	}

	// listening is the first line that a scheduler reports, reported are those that follow.
	listening struct {
		process uint32
		line    string
	}
	reported struct {
		process uint32
		control.Report
	}
	// answered answers ask, unless its id is 0.
	answered struct {
		id     int
		done   control.Done
		wanted control.Wanted
		err    error
	}
	// edited is an edit of host_worker.
	edited struct{ hostworker.Change }

	// signalled is a signal that the launcher got; the zero value is none.
	signalled struct{ signal syscall.Signal }
	// cancelled says that the context of Run has ended, and why.
	cancelled struct{ err error }
	// allClosed answers closeAll. The ends of all processes that are known have come before it.
	allClosed struct{}
)
