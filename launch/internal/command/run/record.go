package run

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/paragon-train/paragon/internal/member/jobcontrol"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/remotecontrol"
)

// A registry lets launch ctl find the jobs of this launcher: on this machine by a file, and from
// other machines by this process.
type registry struct {
	// command is what the workers run.
	command []string

	// folder is the one in which launch was started: launch ctl there means this job.
	folder string

	// remote answers launch ctl on other machines.
	remote *remotecontrol.Server

	log *slog.Logger
}

// recordOf is what launch ctl needs to know of the job.
func (r *registry) recordOf(where job.Where) record.Record {
	host, _ := os.Hostname()
	return record.Record{
		Job: where.Job, Scheduler: where.Scheduler, PID: os.Getpid(), Dir: r.folder, Command: r.command, Started: time.Now(), Host: host,
		Credentials: where.Credentials,
	}
}

// record lets launch ctl on this machine find the job, until what it returns is called. Without the
// record the job runs as well.
func (r *registry) record(where job.Where) (done func()) {
	dir, err := record.Dir(os.Getenv)
	if err == nil {
		var f *record.File
		if f, err = record.Write(dir, r.recordOf(where)); err == nil {
			return func() { f.Remove() }
		}
	}
	r.log.Warn(fmt.Sprintf("%v; launch ctl will not find this job", err))
	return func() {}
}

// answerRemote lets launch ctl on other machines ask about the job, until what it returns is
// called; link makes a link to the job's page. They get the job's record without its credentials:
// requests go through this process, which knows what may be asked.
func (r *registry) answerRemote(where job.Where, link func() string) (done func()) {
	return r.remote.Started(remotecontrol.Job{
		Record: r.recordOf(where),
		Carry: func(ctx context.Context, request []byte) ([]byte, error) {
			return jobcontrol.Carry(ctx, where.Scheduler, where.Credentials, request)
		},
		Link: link,
	})
}
