package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/paragon-train/paragon/internal/files/scratch"
	"github.com/paragon-train/paragon/internal/hosts/lines"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/options"
	"github.com/paragon-train/paragon/launch/internal/command/start"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/method"
	"github.com/paragon-train/paragon/launch/internal/remotecontrol"
)

// A jobRun is the job of this process, from its command line to its exit code. Its steps are those
// of runJob; each opens what the next one needs, and close gives all of it up.
type jobRun struct {
	// o is the command line, which nothing changes.
	o *options.Options

	// env is what start methods work with: this program, its folder, its log.
	env start.Environment

	// out merges the lines of all processes, and those of launch between them.
	out *lines.Merger

	// signals has the signals that were caught, until close.
	signals *signalQueue

	// method is how the job gets to its hosts, from openHosts on.
	method method.Method

	// metrics has the newest metrics that worker 0 has printed.
	metrics lastMetrics

	// goesOn says that another launch may go on with the job: its agents are then left alive. It
	// is so after a check, if nobody has started the job yet, and if launch was told to end by
	// somebody else than its user.
	goesOn atomic.Bool

	// closers give up what was opened, the newest first.
	closers []func()
}

// newJobRun opens the output and the log, and begins to catch signals.
func newJobRun(o *options.Options, stdout, stderr io.Writer) (*jobRun, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("launch: find own program: %w", err)
	}
	cwd, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	r := &jobRun{o: o}
	r.out = lines.New(lines.Config{
		Stdout: stdout, Stderr: stderr, ColorStdout: command.IsTerminal(stdout), ColorStderr: command.IsTerminal(stderr),
		JSON: o.Output.JSON, LogJSON: o.Output.LogFormat == joblog.JSON, Each: r.metrics.take,
	})

	// The log goes through the printer, so that its lines come out whole between those of the
	// processes.
	screen := newStatusLine(printer{r.out}, stderr)
	log := command.NewLogger(screen, o.Output.LogFormat, launcherRole)
	agentLog := io.Writer(screen)
	if o.Output.LogFormat == joblog.JSON {
		agentLog = &agentLines{log: log}
	}
	r.env = start.Environment{
		Executable: exe, Folder: cwd, Log: log, AgentLog: agentLog,
		Progress: screen.progress(o.Output.LogFormat, log), Control: new(remotecontrol.Server),
	}
	r.signals = catchSignals(r.caught)
	r.onClose(r.signals.close)
	return r, nil
}

// caught takes a signal before the job does, which may be waiting for a reader of its output.
func (r *jobRun) caught(s os.Signal) {
	r.goesOn.Store(s != syscall.SIGINT && s != syscall.SIGHUP)
	if s != syscall.SIGUSR1 {
		r.out.Hurry()
	}
}

// onClose has f called by close, before all that was opened earlier.
func (r *jobRun) onClose(f func()) { r.closers = append(r.closers, f) }

// close gives up what was opened. A step may need what an earlier one has opened, so the order is
// the opposite one.
func (r *jobRun) close() {
	for i := len(r.closers) - 1; i >= 0; i-- {
		r.closers[i]()
	}
}

// openHosts opens the ways to the hosts, and the place where launch ctl on other machines asks.
func (r *jobRun) openHosts(ctx context.Context) (err error) {
	if r.env.Source, err = start.OpenSource(r.o.Start.Source, r.env); err != nil {
		return err
	}
	if r.env.Source != nil {
		r.onClose(func() { r.env.Source.Close() })
	}
	if r.method, err = start.Open(ctx, r.o, r.env); err != nil {
		return err
	}
	r.onClose(func() { leave(r.method, r.goesOn.Load()) })

	// Ctrl-Z is ignored: a stopped launcher would send no keepalive, and the agents would end the
	// job.
	if r.method.Remote() {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTSTP)
	}
	endControl, err := start.OpenControl(ctx, r.o, r.env)
	if err != nil {
		return err
	}
	r.onClose(endControl)
	return nil
}

// check is --check. The job itself comes next.
func (r *jobRun) check(ctx context.Context, stdout io.Writer) (outcome, error) {
	r.goesOn.Store(true)
	stopped, err := r.signals.unless(ctx, func(ctx context.Context) error { return runCheck(ctx, r.o, r.method, stdout) })
	return outcome{Result: stopped}, err
}

// configure finds the hosts and says what runs on them. With an error it returns the result of a
// job that a signal stopped before it began.
func (r *jobRun) configure(ctx context.Context) (job.Config, job.Result, error) {
	found, stopped, err := r.findHosts(ctx)
	if err != nil {
		return job.Config{}, stopped, err
	}
	p := planner{o: r.o, env: r.env, method: r.method, here: start.OpenLocal(r.o, r.env)}
	cfg, err := p.place(found)
	if err != nil {
		return cfg, job.Result{}, err
	}
	cfg.Interrupts, cfg.Output, cfg.Logger = r.signals.queued, r.out, r.env.Log
	folder, err := scratch.New("launch")
	if err != nil {
		return cfg, job.Result{}, fmt.Errorf("launch: %w", err)
	}
	r.onClose(func() { folder.Remove() })
	stopped, err = r.signals.unless(ctx, func(ctx context.Context) error { return p.setMachines(ctx, &cfg, folder.Path) })
	if err != nil {
		return cfg, stopped, err
	}
	p.setProcesses(&cfg)
	closeElastic, err := p.setElastic(&cfg, folder.Path)
	if err != nil {
		return cfg, job.Result{}, err
	}
	r.onClose(closeElastic)
	return cfg, job.Result{}, nil
}

// findHosts waits for the hosts. If they do not come in time, somebody will try again.
func (r *jobRun) findHosts(ctx context.Context) (found method.Hosts, stopped job.Result, err error) {
	stopped, err = r.signals.unless(ctx, func(ctx context.Context) (err error) {
		found, err = findHosts(ctx, r.method, r.o.Times.Start)
		return err
	})
	if err != nil && stopped.Code == 0 {
		r.goesOn.Store(true)
	}
	return found, stopped, err
}

// watch lets those see the job who watch it from outside.
func (r *jobRun) watch(cfg *job.Config) (*watchers, error) {
	w, err := watch(r.o, r.env, cfg)
	if err != nil {
		return nil, err
	}
	r.onClose(w.unfollow)
	return w, nil
}

// end says how the job ended, to its watchers, in the log and as an exit code.
func (r *jobRun) end(w *watchers, res job.Result, err error) (outcome, error) {
	r.goesOn.Store(endedFromOutside(res.Code))
	w.end(&res, err)
	if err != nil && errors.Is(err, job.ErrStart) {
		r.env.Log.Error(err.Error(), joblog.JobFailed.With("failure", control.NotStarted, "reason", err.Error(), "exit_code", res.Code))
	} else if err != nil {
		r.env.Log.Error(err.Error())
		res.Code = max(res.Code, 1)
	}
	end := outcome{res, err, r.metrics.get()}
	if res.Code != 0 {
		return end, command.ExitError(res.Code)
	}
	return end, nil
}
