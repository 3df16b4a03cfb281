package job

import (
	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// An Observer is told what becomes of a job and of its processes, as the launcher sees it. One method
// is called after the other; none may block.
type Observer interface {
	// Begun says that the job is being started, for the first time or, as a new job, again.
	Begun(job string)
	// ProcessStarted says that a scheduler, server, worker, or a preparation of a host runs.
	ProcessStarted(n joblog.Node, pid int)
	// ProcessRegistered says that a node is at the scheduler, while the job is forming.
	ProcessRegistered(process uint32)
	// ProcessJoined says that the scheduler listens.
	ProcessJoined(process uint32)
	// Complete says that all processes have joined: the job runs.
	Complete()
	// ProcessEnded says that a process has ended, whether or not it had joined.
	ProcessEnded(process uint32, exit process.Exit)
	// Over says that the job that has Begun has ended.
	Over(r *control.Result)
	// Again says that the job will be started again.
	Again()
}

// nobody is the Observer of a job that has none.
type nobody struct{}

func (nobody) Begun(string)                      {}
func (nobody) ProcessStarted(joblog.Node, int)   {}
func (nobody) ProcessRegistered(uint32)          {}
func (nobody) ProcessJoined(uint32)              {}
func (nobody) Complete()                         {}
func (nobody) ProcessEnded(uint32, process.Exit) {}
func (nobody) Over(*control.Result)              {}
func (nobody) Again()                            {}
