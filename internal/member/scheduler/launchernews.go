package scheduler

import (
	"log/slog"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// launcherNews tells the launcher, line by line, what becomes of the job, each thing once. The
// launcher reads the lines of its own scheduler's process: they need no connection, and come also
// when the job ends before anybody could ask. After a restart they are told again.
type launcherNews struct {
	log *slog.Logger
	// line takes a line; nil: there is no launcher.
	line func(line string)

	// saidRunning and saidStopping say what it was told: that the job is complete, and that it
	// stops with a checkpoint. stopped is what it was told that the job can go on from.
	saidRunning  bool
	saidStopping bool
	stopped      *control.Stopped
}

// tell tells what is news of the core's job.
func (n *launcherNews) tell(core *Core) {
	if phase, _ := core.Phase(); phase == wire.PhaseRunning && !n.saidRunning {
		n.saidRunning = true
		n.report(control.Report{Running: true})
	}
	if reason, limit := core.Stopping(); reason != "" && !n.saidStopping {
		n.saidStopping = true
		n.report(control.Report{Stopping: &control.Stopping{Reason: reason, LimitMillis: limit.Milliseconds()}})
	}
	if x := core.Stopped(); x != n.stopped {
		n.stopped = x
		n.report(control.Report{Stopped: x})
	}
}

// present tells which node of a forming job has come or gone.
func (n *launcherNews) present(x Presence) {
	p := &control.Presence{Role: roleName(x.Place.Role), Rank: x.Place.Rank, Process: x.Process}
	if x.Here {
		n.report(control.Report{Present: p})
	} else {
		n.report(control.Report{Absent: p})
	}
}

func (n *launcherNews) report(r control.Report) {
	if n.line == nil {
		return
	}
	line, err := r.Line()
	if err != nil {
		n.log.Error("a report to the launcher could not be encoded", "err", err)
		return
	}
	n.line(line)
}
