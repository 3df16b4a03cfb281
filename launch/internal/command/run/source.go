package run

import (
	"context"
	"errors"
	"sync"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/launch/internal/hostsource"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
	"github.com/paragon-train/paragon/launch/internal/job"
)

// A sourceJob is the job whose hosts a source names, and a new one after each restart.
type sourceJob struct {
	mu sync.Mutex

	// where is nil if the job does not run.
	where *job.Where
}

// started says where the job is. What it returns says that the job has ended.
func (j *sourceJob) started(w job.Where) (ended func()) {
	set := func(w *job.Where) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.where = w
	}
	set(&w)
	return func() { set(nil) }
}

// errNoJob is why a source's question is not answered between two starts of the job.
var errNoJob = errors.New("the job is not running")

// ask asks the scheduler that the job has now.
func (j *sourceJob) ask(ctx context.Context, q control.Request, into control.Answer) error {
	j.mu.Lock()
	w := j.where
	j.mu.Unlock()
	if w == nil {
		return errNoJob
	}
	_, err := jobScheduler{*w}.Ask(ctx, q, into)
	return err
}

// Hosts implements hostsource.Job.
func (j *sourceJob) Hosts(ctx context.Context) ([]control.Host, error) {
	var s control.Status
	if err := j.ask(ctx, control.Request{Op: control.OpStatus}, &s); err != nil {
		return nil, err
	}
	if s.Phase != control.Running {
		return nil, errNoJob
	}
	return s.Hosts, nil
}

// Again implements hostsource.Job.
func (j *sourceJob) Again(ctx context.Context, h hosts.Host) error {
	return j.ask(ctx, control.Request{Op: control.OpAdd, Host: h.String(), Slots: h.Slots, GPUs: h.GPUs, CPUs: h.CPUs}, &control.Done{})
}

// followSource keeps the hosts of an elastic job as a source says, until what it returns is called.
// f may be nil.
func followSource(f *hostsource.Follower, files *hostworker.Files, j *sourceJob) (stop func()) {
	if f == nil || files == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { f.Follow(ctx, files, j) })
	return func() { cancel(); following.Wait() }
}
