package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"

	"github.com/paragon-train/paragon/internal/files/scratch"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/lines"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/method"
	"github.com/paragon-train/paragon/launch/internal/remotecontrol"
)

// run carries the command line out.
func (o *options) run(ctx context.Context, stdout, stderr io.Writer) error {
	if o.result == "" {
		_, err := o.runJob(ctx, stdout, stderr)
		return err
	}
	file, err := openResult(o.result)
	if err != nil {
		return err
	}
	res, err := o.runJob(ctx, stdout, stderr)
	code := 0
	var exit exitError
	switch {
	case errors.As(err, &exit):
		code = int(exit)
	case err != nil: // launch prints it, and ends with 1
		code, res.err = 1, err
	}
	if s, ok := stdout.(*standardOutput); ok && code == 0 && s.code(0) != 0 {
		code, res.err = s.code(0), errors.New("the standard output could not be written")
	}
	report := res.Report(res.err, code)
	report.Metrics = res.metrics
	if writing := file.write(report); writing != nil {
		err = errors.Join(err, writing)
		if code > 0 {
			slog.Error(writing.Error()) // the exit code is that of the job
		}
	}
	return err
}

// An outcome is how the job ended.
type outcome struct {
	job.Result
	err     error            // nil, or why the job could not be started or was not left clean
	metrics *control.Metrics // the newest; nil: none
}

// runJob runs the job to its end. An error that is not an exitError has not been printed yet.
func (o *options) runJob(ctx context.Context, stdout, stderr io.Writer) (outcome, error) {
	exe, err := os.Executable()
	if err != nil {
		return outcome{}, fmt.Errorf("launch: find own program: %w", err)
	}
	var metrics lastMetrics
	out := lines.New(lines.Config{
		Stdout: stdout, Stderr: stderr, ColorStdout: isTerminal(stdout), ColorStderr: isTerminal(stderr), JSON: o.json, LogJSON: o.logFormat == joblog.JSON, Each: metrics.take,
	})
	screen := newStatusLine(printer{out}, stderr) // log lines, too, come out whole
	log := newLogger(screen, o.logFormat, launcherRole)
	agentLog := io.Writer(screen)
	if o.logFormat == joblog.JSON {
		agentLog = &agentLines{log: log}
	}
	cwd, err := os.Getwd()
	if err != nil {
		return outcome{}, fmt.Errorf("launch: %w", err)
	}
	env := startEnvironment{executable: exe, folder: cwd, log: log, agentLog: agentLog, progress: screen.progress(o.logFormat, log), control: new(remotecontrol.Server)}
	interrupts, caught := make(chan os.Signal, 8), make(chan os.Signal, 8)
	catch := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1}
	if !signal.Ignored(syscall.SIGHUP) { // under nohup it stays ignored
		catch = append(catch, syscall.SIGHUP)
	}
	signal.Notify(caught, catch...)
	var goesOn atomic.Bool // launch was told to end, not by its user: another one may go on with the job
	ended := make(chan struct{})
	defer close(ended)
	defer signal.Stop(caught)
	go func() {
		for {
			select {
			case s := <-caught:
				goesOn.Store(s != syscall.SIGINT && s != syscall.SIGHUP)
				if s != syscall.SIGUSR1 {
					out.Hurry() // first: the job may be waiting for a reader of its output
				}
				select {
				case interrupts <- s:
				default: // eight wait already
				}
			case <-ended:
				return
			}
		}
	}()

	if env.source, err = o.openSource(env); err != nil {
		return outcome{}, err
	}
	if env.source != nil {
		defer env.source.Close()
	}
	m, err := o.start.open(ctx, o, env)
	if err != nil {
		return outcome{}, err
	}
	defer func() { leave(m, goesOn.Load()) }()
	if m.Remote() {
		// Ctrl-Z is ignored: a stopped launcher would send no keepalive, and the agents
		// would end the job.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTSTP)
	}
	endControl, err := o.openControl(ctx, env)
	if err != nil {
		return outcome{}, err
	}
	defer endControl()
	if o.check {
		goesOn.Store(true) // the job itself comes next
		stopped, err := unless(ctx, interrupts, func(ctx context.Context) error { return o.runCheck(ctx, m, stdout) })
		return outcome{Result: stopped}, err
	}
	here, err := openLocal(ctx, o, env)
	if err != nil {
		return outcome{}, err
	}
	var found method.Hosts
	if stopped, err := unless(ctx, interrupts, func(ctx context.Context) (err error) { found, err = o.findHosts(ctx, m); return err }); err != nil {
		if stopped.Code == 0 {
			goesOn.Store(true) // somebody will try again
		}
		return outcome{Result: stopped}, err
	}
	place, err := found.Place(o.workers, o.servers)
	if err != nil {
		return outcome{}, fmt.Errorf("launch: %w", err)
	}
	cfg := job.Config{
		Workers: place.Workers, Hosts: found.Workers, Servers: place.Servers, ServerHosts: found.Servers, SchedulerHost: o.schedulerHost,
		Command: o.command, Role: []string{"role"},
		Env: o.env.all, ServerEnv: o.env.servers, WorkerEnv: o.env.workers, GPUs: o.gpus,
		Local:         func(ctx context.Context) (job.Machine, error) { return here.Dial(ctx, hosts.Local) },
		MetricsListen: o.metricsListen, ResumeAsked: o.env.resumes(os.Getenv), ResumeCommand: resumeCommand(os.Args),
		HostIP: o.hostIP, Interface: o.netName, TLS: o.tls,
		StartTimeout: o.startTimeout, StopTimeout: o.stopTimeout, CheckpointTime: o.checkpointTime,
		Interrupts: interrupts, Output: out, Logger: log,
	}
	folder, err := scratch.New("launch")
	if err != nil {
		return outcome{}, fmt.Errorf("launch: %w", err)
	}
	defer folder.Remove()
	dir := folder.Path
	if cfg.Dir = m.Dir(); m.Remote() {
		cfg.HostTimeout = o.hostTimeout
		cfg.Env = o.env.forRemote(os.LookupEnv)
		cfg.Dial = func(ctx context.Context, h hosts.Host) (job.Machine, error) { return dial(ctx, m, h) }
	} else if stopped, err := unless(ctx, interrupts, func(ctx context.Context) (err error) {
		cfg.Command, err = buildGoRun(ctx, o.command, dir)
		return err
	}); err != nil {
		return outcome{Result: stopped}, err
	}
	cfg.Env = append(cfg.Env[:len(cfg.Env):len(cfg.Env)], joblog.Variable+"="+string(o.logFormat))
	if o.processMetrics != "" {
		cfg.Env = append(cfg.Env, processMetricsEnv+"="+o.processMetrics)
	}
	if o.trial {
		cfg.Command, cfg.OwnCommand = append([]string{"slot"}, cfg.Command...), true
	}
	if o.carry {
		cfg.Command, cfg.OwnCommand = append([]string{"carry"}, cfg.Command...), true
	}
	cfg.Elastic = o.elastic
	close, err := o.setElastic(&cfg, m, dir, cwd)
	if err != nil {
		return outcome{}, err
	}
	defer close()
	var sourced sourceJob
	defer followSource(env.source, cfg.Elastic.Files, &sourced)()
	live, err := o.openPage(log)
	if err != nil {
		return outcome{}, err
	}
	spans := o.openSpans(log)
	if spans != nil {
		cfg.Watcher = spans
	}
	cfg.Listening = func(w job.Where) (func(), error) {
		live.started(w)
		follow := func() {}
		if spans != nil {
			follow = spans.Follow(jobScheduler{w})
		}
		w.Credentials = append(w.Credentials[:len(w.Credentials):len(w.Credentials)], live.credentials()...)
		ended := []func(){follow, o.record(w, cwd, log), sourced.started(w), o.startedRemote(env.control, w, cwd, live)}
		return func() {
			for _, f := range ended {
				f()
			}
		}, nil
	}
	res, err := job.Repeat(ctx, cfg, o.restarts)
	goesOn.Store(endedFromOutside(res.Code))
	closeSpans(spans, &res, err)
	live.close(res, err)
	if err != nil && errors.Is(err, job.ErrStart) {
		log.Error(err.Error(), joblog.JobFailed.With("failure", control.NotStarted, "reason", err.Error(), "exit_code", res.Code))
	} else if err != nil {
		log.Error(err.Error())
		res.Code = max(res.Code, 1)
	}
	if res.Code != 0 {
		return outcome{res, err, metrics.get()}, exitError(res.Code)
	}
	return outcome{res, err, metrics.get()}, nil
}

// unless calls f, which ends when its context does, unless an interrupt comes first: then the job
// has ended, and the error has its exit code.
func unless(ctx context.Context, interrupts <-chan os.Signal, f func(ctx context.Context) error) (job.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return job.Result{}, err
	case s := <-interrupts:
		cancel()
		<-done
		return job.Stopped(s), exitError(job.SignalCode(s))
	}
}

// endedFromOutside reports whether a job that ended with this code did not fail by itself: it
// stopped with a checkpoint, or a process was ended by SIGTERM or killed. Whoever started launch
// may start it again, as Kubernetes does (the rules of package kubernetes have the same codes).
func endedFromOutside(code int) bool {
	return code == control.ExitCheckpointed || code == 128+int(syscall.SIGTERM) || code == 128+int(syscall.SIGKILL)
}

// leave gives a start method up. goesOn says that the job may go on with another launch.
func leave(m method.Method, goesOn bool) {
	if a, ok := m.(method.Abandoner); ok && goesOn {
		a.Abandon()
		return
	}
	m.Close()
}

// findHosts waits for the hosts of the job, for as long as a start may take.
func (o *options) findHosts(ctx context.Context, m method.Method) (method.Hosts, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.startTimeout, fmt.Errorf("gave up after %s (--start-timeout)", o.startTimeout))
	defer cancel()
	return m.Hosts(ctx)
}

// dial connects to a host, and copies the current folder there if asked to.
func dial(ctx context.Context, by method.Method, h hosts.Host) (job.Machine, error) {
	m, err := by.Dial(ctx, h)
	if err != nil {
		return nil, err
	}
	if copier, ok := by.(method.Copier); ok && copier.SyncDir() != "" {
		if err := copier.Sync(ctx, m); err != nil {
			m.Close()
			return nil, copyError{err}
		}
	}
	return m, nil
}

// A copyError is why the current folder was not copied to a host that was reached.
type copyError struct{ error }

func (e copyError) Unwrap() []error { return []error{e.error, job.ErrCopy} }

// A printer writes to the launcher's standard error between the lines of the processes.
type printer struct{ out *lines.Merger }

func (p printer) Write(b []byte) (int, error) {
	p.out.Print(string(b))
	return len(b), nil
}

func isTerminal(w io.Writer) bool {
	f := fileOf(w)
	return f != nil && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
