package run

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/paragon-train/paragon/internal/member/jobcontrol"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/remotecontrol"
)

// recordOf is what launch ctl needs to know of the job at w.
func (r *jobRun) recordOf(w job.Where) record.Record {
	host, _ := os.Hostname()
	return record.Record{Job: w.Job, Scheduler: w.Scheduler, PID: os.Getpid(), Dir: r.env.Folder, Command: r.o.Command, Started: time.Now(), Host: host, Credentials: w.Credentials}
}

// record lets launch ctl on this machine find the job, until what it returns is called. Without the
// record the job runs as well.
func (r *jobRun) record(w job.Where) (done func()) {
	dir, err := record.Dir(os.Getenv)
	if err == nil {
		var f *record.File
		if f, err = record.Write(dir, r.recordOf(w)); err == nil {
			return func() { f.Remove() }
		}
	}
	r.env.Log.Warn(fmt.Sprintf("%v; launch ctl will not find this job", err))
	return func() {}
}

// answerRemote lets launch ctl on other machines ask about the job at w, whose page is live, until
// what it returns is called. They get the job's record without its credentials: requests go through
// this process, which knows what may be asked.
func (r *jobRun) answerRemote(w job.Where, live *livePage) (done func()) {
	return r.env.Control.Started(remotecontrol.Job{
		Record: r.recordOf(w),
		Carry: func(ctx context.Context, request []byte) ([]byte, error) {
			return jobcontrol.Carry(ctx, w.Scheduler, w.Credentials, request)
		},
		Link: live.link,
	})
}
