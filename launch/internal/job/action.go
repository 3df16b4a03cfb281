package job

import (
	"log/slog"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/lines"
	"github.com/paragon-train/paragon/internal/member/control"
)

// An action is something that the shell is to do: one of the types below.
type action any

type (
	// connect connects to a host, or to the launching machine; the machine gets the number id.
	connect struct {
		id   int
		host *hosts.Host // nil: the launching machine
	}
	// checkHost finds out whether a host is the launching machine, where there are no others.
	checkHost struct {
		id   int
		host hosts.Host
	}
	// cancelCall cancels a connect or a checkHost that is pending, cancelAsk an ask. Its answer
	// still comes.
	cancelCall struct {
		id  int
		why string
	}
	cancelAsk struct {
		id  int
		why string
	}
	// closeMachine closes a connection. With dismiss the host is told that the job does not
	// need it any more.
	closeMachine struct {
		machine int
		dismiss bool
	}
	// chooseAddress finds the address at which all machines reach a scheduler on one of them.
	chooseAddress struct{ scheduler int }
	// announce tells others that the scheduler listens.
	announce struct{ address, port string }

	// open makes the streams of a process that will be started.
	open struct {
		process uint32
		source  lines.Source
		colour  int
	}
	// rename gives the lines of its output another name.
	rename struct {
		process uint32
		source  lines.Source
	}
	startProcess struct {
		process       uint32
		machine       int
		name, role    string
		rank          int // -1: the scheduler gives it one
		number        int // DMLC_TASK_ID
		host          hosts.Host
		hostName      string // what the job's nodes call it
		joins         bool   // it joins a job that may be complete
		sharers       int    // processes of its role on its machine
		gpus          *gpus.Want
		address, port string // the scheduler's
		hosts         string // of a scheduler: where everybody comes up
		metrics       string // of a scheduler: the address on which it serves metrics; empty: none
		launcherDir   bool   // it runs in the launcher's folder
	}
	// cancelStart cancels a startProcess that is pending. Its answer still comes.
	cancelStart struct {
		process uint32
		why     string
	}
	signalProcess struct {
		process uint32
		signal  syscall.Signal
	}

	// ask asks the scheduler, repeatedly until it answers, for at most limit (0: until it is
	// cancelled). If the id is 0, no answer is wanted.
	ask struct {
		id int
		control.Request
		limit time.Duration
	}
	// follow begins to hand over edits of host_worker.
	follow struct{}
	// listHost adds a host to host_worker, or removes it.
	listHost struct {
		host  hosts.Host
		named bool
	}
	// logHost writes a line into host_worker_log.
	logHost struct {
		action, host string
		timeNS       int64
	}

	// tell tells the user something.
	tell struct {
		level slog.Level
		text  string
		event []slog.Attr // what package joblog makes of an event: at most one
	}
	// announceWorker says that a worker is being started on a host, in the words of the AWS
	// elastic launcher, which tools may look for.
	announceWorker struct{ host hosts.Host }
	// holdOutput keeps the processes' output back until showStart shows who runs where.
	holdOutput struct{}
	showStart  struct{}

	// closeAll closes all connections, which ends what still runs.
	closeAll struct{}
	// end is the last action.
	end struct{}
)
