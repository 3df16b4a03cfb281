package job

import (
	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// A Watcher is told what becomes of a job and of its processes, as the launcher sees it. One method
// is called after the other; none may block.
type Watcher interface {
	Begun(job string)                               // the job is being started, for the first time or, as a new job, again
	ProcessStarted(n joblog.Node, pid int)          // scheduler, server, worker, or a preparation of a host
	ProcessRegistered(process uint32)               // at the scheduler, while the job is forming
	ProcessJoined(process uint32)                   // the scheduler, which listens
	Complete()                                      // all processes have joined: the job runs
	ProcessEnded(process uint32, exit process.Exit) // also one that never joined
	Over(r *control.Result)                         // the job that has Begun has ended
	Again()                                         // it will be started again
}

// nobody watches.
type nobody struct{}

func (nobody) Begun(string)                      {}
func (nobody) ProcessStarted(joblog.Node, int)   {}
func (nobody) ProcessRegistered(uint32)          {}
func (nobody) ProcessJoined(uint32)              {}
func (nobody) Complete()                         {}
func (nobody) ProcessEnded(uint32, process.Exit) {}
func (nobody) Over(*control.Result)              {}
func (nobody) Again()                            {}
