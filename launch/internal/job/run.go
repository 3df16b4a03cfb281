package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/control"
)

// settle is how long after a failure others are listened to: the process that failed first may be heard of last.
const settle = 250 * time.Millisecond

// killTime is how long everybody has between the last SIGTERM and SIGKILL, and after that to be gone.
const killTime = 500 * time.Millisecond

// ErrStart is in the chain of errors of jobs that never ran.
var ErrStart = errors.New("launch: the job was not started")

// Run runs a job to its end. When it returns no process of the job is left on any machine that can be reached. The Result
// is valid with an error, too: the error tells why the job could not be run, or that machines were not left clean.
func Run(ctx context.Context, cfg Config) (Result, error) {
	if err := cfg.setDefaults(); err != nil {
		return Result{Code: 2}, err
	}
	r := newRun(cfg)
	starting, cancel := context.WithTimeoutCause(ctx, cfg.StartTimeout, fmt.Errorf("not there after %s (--start-timeout)", cfg.StartTimeout))
	defer cancel()
	starting, interrupt := context.WithCancelCause(starting)
	defer interrupt(nil)
	started := make(chan error, 1)
	go func() { started <- r.start(starting) }()

	var err error
	var stopped os.Signal
	select {
	case err = <-started:
	case stopped = <-cfg.Interrupts:
		interrupt(fmt.Errorf("stopped by %s", stopped))
		err = <-started
	}
	res := Result{Nodes: r.nodes, job: r.id, phase: control.Starting}
	switch {
	case stopped != nil:
		res.signal = stopped
		res.Code = SignalCode(stopped)
		if err == nil {
			err = fmt.Errorf("launch: stopped by %s", stopped)
		}
	case err != nil:
		res.Code, res.cancelled = 1, ctx.Err() != nil
	}
	res.lostHosts = r.lostHosts
	if stopped != nil || ctx.Err() != nil {
		res.lostHosts = nil // the launcher has not waited for them
	}
	defer func() {
		if r.release != nil {
			r.release()
		}
	}()
	defer close(r.over)
	if err != nil {
		cfg.Output.Release()
		r.close()
		r.collect()
		res.Nodes = r.nodes
		return res, fmt.Errorf("%w:\n%w", ErrStart, err)
	}
	cfg.Output.Print(r.sentences() + startTable(r))
	cfg.Output.Release()
	w := newWatch(r)
	res.Code = w.loop(ctx)
	res.signal, res.cancelled, res.phase, res.changes = w.interrupt, w.cancelled, control.Forming, w.membership
	if w.formed() {
		res.phase = control.Running
	}
	err = r.close()
	r.collect()
	res.Nodes, res.leftOut = r.nodes, [2]int{r.forgotten, w.membershipLeftOut}
	if res.culprit = w.first; w.first != nil && w.culprit != nil {
		res.culprit = w.culprit
	}
	if w.failure != nil {
		f := w.ending()
		res.failure = &f
	}
	cfg.Output.Print(endTable(r))
	if text := w.explain(); text != "" {
		cfg.Output.Print(text + "\n")
	}
	return res, err
}

// close closes all machines at once.
func (r *run) close() error {
	for _, n := range r.nodes {
		n.lostMachine = n.machine != nil && lostMachine(n.machine) // closed ones are gone, too
		n.signalled = n.signalled || !n.ended && n.handle != nil   // the machine does that now
	}
	var mu sync.Mutex
	var errs []error
	var all sync.WaitGroup
	for _, m := range r.machines {
		all.Go(func() {
			if err := m.Close(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// collect takes note of every end that is known by now.
func (r *run) collect() {
	for _, n := range r.nodes {
		if n.handle == nil {
			continue
		}
		select {
		case <-n.handle.Done():
			n.finish()
		default:
			if !n.ended {
				n.Exit.Err, n.Exit.Code, n.Exit.Lost = "not known: its machine does not answer", 255, true
			}
		}
	}
}

func (n *Node) finish() {
	if n.ended {
		return
	}
	n.ended = true
	n.Exit = n.handle.Exit()
	n.stdout.Flush()
	n.stderr.Flush()
	if n.Last = n.stderr.Last(); n.Last == "" || n.Exit.OK() && n.stdout.Last() != "" {
		n.Last = n.stdout.Last()
	}
	n.Last = kept(n.Last)
	n.stdout, n.stderr = nil, nil // with the lines that they hold back
}

// signal sends a process a signal.
func (n *Node) signal(s syscall.Signal) {
	n.signalled = true
	n.handle.Signal(s)
}

// endedAt is when the process ended, by the launcher's clock.
func (n *Node) endedAt() time.Time { return n.started.Add(n.Exit.Elapsed) }

// SignalCode is the exit code of a launch that a signal stopped.
func SignalCode(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 1
}
