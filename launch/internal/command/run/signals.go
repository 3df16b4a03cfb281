package run

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/job"
)

// signalQueue has the signals that end the job, or stop it with a checkpoint, in the order in which
// they came, from catchSignals to close. The job reads them from queued.
type signalQueue struct {
	// caught has the signals as they come, and queued those that the job has not read.
	caught, queued chan os.Signal

	// ended ends the goroutine that passes them on, and passing waits for it.
	ended   chan struct{}
	passing sync.WaitGroup
}

// maxSignals is how many signals can wait for the job. Further ones would tell it nothing new.
const maxSignals = 8

// catchSignals begins to catch them. onSignal is called with each one before it is queued, and must
// not block.
func catchSignals(onSignal func(os.Signal)) *signalQueue {
	q := &signalQueue{caught: make(chan os.Signal, maxSignals), queued: make(chan os.Signal, maxSignals), ended: make(chan struct{})}
	catch := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1}

	// Under nohup SIGHUP stays ignored.
	if !signal.Ignored(syscall.SIGHUP) {
		catch = append(catch, syscall.SIGHUP)
	}
	signal.Notify(q.caught, catch...)
	q.passing.Go(func() { q.pass(onSignal) })
	return q
}

// pass moves signals from caught to queued until close. Nobody may read queued for a while, so what
// does not fit is dropped; onSignal has seen it.
func (q *signalQueue) pass(onSignal func(os.Signal)) {
	for {
		select {
		case s := <-q.caught:
			onSignal(s)
			select {
			case q.queued <- s:
			default:
			}
		case <-q.ended:
			return
		}
	}
}

// close stops catching signals: the next one ends this process.
func (q *signalQueue) close() {
	signal.Stop(q.caught)
	close(q.ended)
	q.passing.Wait()
}

// unless calls f, which ends when its context does, unless a signal comes first: then the job has
// ended, and the error has its exit code.
func (q *signalQueue) unless(ctx context.Context, f func(ctx context.Context) error) (job.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return job.Result{}, err
	case s := <-q.queued:
		cancel()
		<-done
		return job.Stopped(s), command.ExitError(job.SignalCode(s))
	}
}
