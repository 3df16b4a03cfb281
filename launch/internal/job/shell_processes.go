package job

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/hosts/lines"
	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// A runningProcess is one that runs, or is about to.
type runningProcess struct {
	number  uint32
	machine int
	// handle is nil until the process has been started.
	handle process.Handle
	// cancel ends its start.
	cancel context.CancelCauseFunc
	// Both streams have the same source.
	stdout, stderr *lines.Stream
	source         lines.Source
}

// rename gives both streams another source.
func (p *runningProcess) rename(source lines.Source) {
	p.source = source
	p.stdout.Rename(source)
	p.stderr.Rename(source)
}

// logged is what the log's events say of the process.
func (p *runningProcess) logged() joblog.Node {
	return joblog.Node{Role: p.source.Role, Rank: p.source.Rank, Host: p.source.Host, Process: p.number}
}

// What comes to the loop from processes.
type (
	processStart struct {
		p      *runningProcess
		handle process.Handle
	}
	processFailure struct {
		p   *runningProcess
		err error
	}
	processEnd struct{ p *runningProcess }
)

// open makes the streams of a process, which has a name before it has a host.
func (s *shell) open(a open) {
	out := s.cfg.Output
	a.source.Job, a.source.Process = s.id, a.process
	s.processes[a.process] = &runningProcess{number: a.process, stdout: out.Stdout(a.source, a.colour), stderr: out.Stderr(a.source, a.colour), source: a.source}
}

// rename gives the lines of a process another name. It may have ended by then.
func (s *shell) rename(a rename) {
	if p := s.processes[a.process]; p != nil {
		a.source.Job, a.source.Process, a.source.Host = p.source.Job, p.number, p.source.Host
		p.rename(a.source)
	}
}

// start starts a process beside the loop, and waits for its end there.
func (s *shell) start(a startProcess) {
	p, m := s.processes[a.process], s.machines[a.machine]
	named := p.source
	named.Host = a.hostName
	p.rename(named)
	output := process.Output{Stdout: p.stdout, Stderr: p.stderr, Started: p.stderr.SetPID}
	if a.role == roleScheduler {
		output.Report = &reportReader{process: a.process, send: s.send, log: s.cfg.Logger}
	}
	var ctx context.Context
	ctx, p.cancel = context.WithCancelCause(s.ctx)
	p.machine = a.machine
	spec := s.spec(a, m)
	s.working.Go(func() {
		defer p.cancel(nil)
		h, err := m.Start(ctx, spec, output)
		if err != nil {
			s.send(processFailure{p, err})
			return
		}
		if !s.send(processStart{p, h}) {
			return
		}
		// The process ends at the latest when its machine is closed.
		select {
		case <-h.Done():
			s.send(processEnd{p})
		case <-s.over:
		}
	})
}

// processEnded is the end of a process, once. Its output has been read: the last line may say why.
func (s *shell) processEnded(p *runningProcess) []event {
	if s.processes[p.number] == nil {
		return nil
	}
	delete(s.processes, p.number)
	exit := p.handle.Exit()
	s.cfg.Observer.ProcessEnded(p.number, exit)
	p.stdout.Flush()
	p.stderr.Flush()
	// Programs complain on stderr and sum up on stdout.
	last := p.stderr.Last()
	if last == "" || exit.OK() && p.stdout.Last() != "" {
		last = p.stdout.Last()
	}
	// Text has a table at the end.
	if s.json {
		s.cfg.Logger.Info(fmt.Sprintf("%s ended: %s", p.source.Name, exit),
			joblog.ProcessEnded.Of(p.logged(), "node_pid", p.handle.PID(), "exit", exit.String(), "status", exit.Status(), "elapsed", exit.Elapsed))
	}
	return append(s.loss(p.machine), ended{p.number, exit, last})
}

// spec says what a process is.
func (s *shell) spec(a startProcess, m Machine) process.Spec {
	spec := process.Spec{Name: a.name, Dir: s.cfg.Dir, Sharers: a.sharers, GPUs: a.gpus, CPUs: a.host.CPUs}
	switch a.role {
	case rolePrepare:
		env := append(slices.Clone(s.cfg.Env), s.cfg.WorkerEnv...)
		spec.Command, spec.Env, spec.Sharers = s.cfg.Elastic.PrepareData, append(env, "DMLC_NODE_HOST="+a.hostName), 0
		// It has the whole host, for it runs before the workers.
		spec.CPUs = 0
		return spec
	case roleWorker:
		spec.Command, spec.Self = s.cfg.Command, s.cfg.OwnCommand
	default:
		spec.Command, spec.Self = s.cfg.Role, true
	}
	spec.Env, spec.Report = s.environment(a, m), a.role == roleScheduler
	if a.launcherDir {
		spec.Dir = ""
	}
	return spec
}

// maxReport bounds one line of a report.
const maxReport = 64 << 10

// A reportReader makes events of what a scheduler reports.
type reportReader struct {
	process uint32
	send    func(event) bool
	log     *slog.Logger
	buf     []byte
	// listens says that it has said where it listens.
	listens bool
}

// Write implements io.Writer for one goroutine.
func (r *reportReader) Write(p []byte) (int, error) {
	r.buf = append(r.buf, p...)
	for {
		line, rest, found := strings.Cut(string(r.buf), "\n")
		if !found && len(line) <= maxReport {
			return len(p), nil
		}
		r.buf = []byte(rest)
		r.line(line)
	}
}

func (r *reportReader) line(line string) {
	if !r.listens {
		r.listens = true
		r.send(listening{r.process, line})
		return
	}
	got, err := control.DecodeReport([]byte(line))
	if err != nil {
		r.log.Warn(fmt.Sprintf("launch: the scheduler reports %.100q: %v", line, err))
		return
	}
	r.send(reported{r.process, got})
}
