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
	// connect connects to a host, or without one to the launching machine. The machine that it
	// leads to gets the number id.
	connect struct {
		id   int
		host *hosts.Host
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
	// startProcess starts a process.
	startProcess struct {
		process    uint32
		machine    int
		name, role string
		// rank is -1 where the scheduler gives one. number is the process's DMLC_TASK_ID.
		rank, number int
		host         hosts.Host
		// hostName is what the job's nodes call the host.
		hostName string
		// joins says that the job may be complete already.
		joins bool
		// sharers is how many processes of its role share its machine's cores.
		sharers int
		gpus    *gpus.Want
		// address and port are the scheduler's.
		address, port string
		// A scheduler is told where everybody comes up, and the address on which it serves
		// metrics; empty: none.
		hosts, metrics string
		// launcherDir says that it runs in the launcher's folder.
		launcherDir bool
	}
	// cancelStart cancels a startProcess that is pending. Its answer still comes.
	cancelStart struct {
		process uint32
		why     string
	}
	// signalProcess sends a process a signal.
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
		// event is what package joblog makes of an event: at most one.
		event []slog.Attr
	}
	// announceWorker says that a worker is being started on a host, in the words of the AWS
	// elastic launcher, which tools may look for.
	announceWorker struct{ host hosts.Host }
	// holdOutput keeps the processes' output back until showStart shows who runs where.
	holdOutput struct{}
	showStart  struct {
		// address and port are the scheduler's.
		address, port string
		nodes         []*Node
	}

	// closeAll closes all connections, which ends what still runs.
	closeAll struct{}
	// end is the last action.
	end struct{}
)
