package job

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/identity"
)

// A shell carries out what the core decides, and tells it what happens. What may take long runs
// beside the loop of run; all that the shell has belongs to the loop.
type shell struct {
	cfg Config
	id  string
	// json says that the log is JSON lines: there are no tables.
	json bool
	// credentials are the variables with the secrets that all processes of the job share,
	// controls those by which the launcher asks the scheduler.
	credentials, controls []string
	// authority makes this job's certificates; nil: it has no TLS.
	authority *identity.Authority

	events chan event
	// over is closed when the loop has ended.
	over chan struct{}
	// ctx ends with the job.
	ctx     context.Context
	working sync.WaitGroup
	// release is what Listening returned.
	release func()

	machines map[int]Machine
	// lost are the machines of which the core knows that they are lost.
	lost map[int]bool
	// closing says that all machines are being closed.
	closing   bool
	processes map[uint32]*runningProcess
	// cancels and asks end connections and requests that are under way, by their number.
	cancels, asks map[int]context.CancelCauseFunc
	// address is the scheduler's, host:port.
	address  string
	closeErr error
}

func newShell(cfg Config) *shell {
	s := &shell{cfg: cfg, events: make(chan event), over: make(chan struct{}), machines: make(map[int]Machine), lost: make(map[int]bool),
		processes: make(map[uint32]*runningProcess), cancels: make(map[int]context.CancelCauseFunc), asks: make(map[int]context.CancelCauseFunc)}
	var secret string
	s.id, secret = newIdentity()
	s.json = joblog.IsJSON(cfg.Logger)
	joblog.SetJob(cfg.Logger, s.id)
	s.credentials = []string{"PARAGON_SECRET=" + secret}
	return s
}

// run drives the core until it has ended. The loop alone touches the core and what the shell has.
// Whatever may take long runs beside it and sends an event, so that a host that hangs holds nobody
// up. The actions of an event are performed before the next event is taken.
func (s *shell) run(ctx context.Context, c *core) {
	var stop context.CancelFunc
	s.ctx, stop = context.WithCancel(context.Background())
	defer s.working.Wait()
	defer func() {
		if s.release != nil {
			s.release()
		}
	}()
	defer close(s.over)
	defer stop()
	// A job that was not started still holds its output.
	defer s.cfg.Output.Release()
	clock := time.NewTimer(0)
	defer clock.Stop()
	done := ctx.Done()
	// The core looks at the clock now and then, so that it sees when this process stood still.
	var looks <-chan time.Time
	if d := s.cfg.HostTimeout; d > 0 {
		look := time.NewTicker(d / 4)
		defer look.Stop()
		looks = look.C
	}
	for actions := c.out.take(); ; {
		for _, a := range actions {
			if _, ended := a.(end); ended {
				return
			}
			s.perform(a)
		}
		clock.Stop()
		if next := c.next(); !next.IsZero() {
			clock.Reset(time.Until(next))
		}
		var happened []event
		select {
		case e := <-s.events:
			happened = s.receive(e)
		case <-clock.C:
			happened = []event{nil}
		case <-looks:
			happened = []event{nil}
		case sig := <-s.cfg.Interrupts:
			happened = []event{signalled{systemSignal(sig)}}
		case <-done:
			done = nil
			happened = []event{cancelled{context.Cause(ctx)}}
		}
		actions = nil
		for _, e := range happened {
			actions = append(actions, c.step(e, time.Now())...)
		}
	}
}

// send hands an event to the loop; false: the loop has ended.
func (s *shell) send(e event) bool {
	select {
	case s.events <- e:
		return true
	case <-s.over:
		return false
	}
}

// perform carries out an action. What it is for may be gone by then: a process that has ended gets no
// signal, and nothing is cancelled twice.
func (s *shell) perform(a action) {
	switch a := a.(type) {
	case connect:
		s.connect(a)
	case checkHost:
		s.checkHost(a)
	case cancelCall:
		if cancel := s.cancels[a.id]; cancel != nil {
			cancel(errors.New(a.why))
		}
	case cancelAsk:
		if cancel := s.asks[a.id]; cancel != nil {
			cancel(errors.New(a.why))
		}
	case closeMachine:
		s.closeMachine(a)
	case chooseAddress:
		s.chooseAddress(a)
	case announce:
		s.announce(a)
	case open:
		s.open(a)
	case rename:
		s.rename(a)
	case startProcess:
		s.start(a)
	case cancelStart:
		if p := s.processes[a.process]; p != nil && p.cancel != nil {
			p.cancel(errors.New(a.why))
		}
	case signalProcess:
		if p := s.processes[a.process]; p != nil && p.handle != nil {
			p.handle.Signal(a.signal)
		}
	case ask:
		s.ask(a)
	case follow:
		s.follow()
	case listHost:
		s.listHost(a)
	case logHost:
		s.logHost(a)
	case tell:
		s.cfg.Logger.LogAttrs(context.Background(), a.level, a.text, a.event...)
	case announceWorker:
		if !s.json {
			s.cfg.Output.Print(fmt.Sprintf("Launching new worker jobs: %s\n", s.command(a.host)))
		}
	case holdOutput:
		s.cfg.Output.Hold()
	case showStart:
		s.showStart(a)
	case closeAll:
		s.closeAll()
	default:
		panic(fmt.Sprintf("launch: action %T is not known", a))
	}
}

// showStart shows who runs where, and then what the processes have written meanwhile.
func (s *shell) showStart(a showStart) {
	if s.json {
		s.cfg.Logger.Info("all processes were started", joblog.JobStarted.With("scheduler", net.JoinHostPort(a.address, a.port), "workers", len(s.cfg.Workers), "servers", len(s.cfg.Servers)))
	} else {
		s.cfg.Output.Print(sentences(s.cfg.Elastic.Files, a.nodes) + startTable(s.id, a))
	}
	s.cfg.Output.Release()
}

// receive turns what came to the loop into events for the core. The loss of a machine comes before
// what follows from it, so that the core knows why a process there has ended.
func (s *shell) receive(e event) []event {
	switch e := e.(type) {
	case connectedMachine:
		return s.machineConnected(e)
	case machineGone:
		return s.loss(e.machine)
	case processStart:
		e.p.handle = e.handle
		s.cfg.Observer.ProcessStarted(e.p.logged(), e.handle.PID())
		if s.json {
			s.cfg.Logger.Info(e.p.source.Name+" was started", joblog.ProcessStarted.Of(e.p.logged(), "node_pid", e.handle.PID()))
		}
		return []event{started{e.p.number, e.handle.PID()}}
	case processFailure:
		delete(s.processes, e.p.number)
		return append(s.loss(e.p.machine), startFailed{e.p.number, e.err})
	case processEnd:
		return s.processEnded(e.p)
	case machinesClosed:
		return s.machinesClosed(e)
	case announcement:
		s.release = e.release
		return []event{announced{e.err}}
	case listening:
		s.cfg.Observer.ProcessJoined(e.process)
	case reported:
		s.watch(e)
	case answered:
		delete(s.asks, e.id)
	case connected:
		delete(s.cancels, e.id)
	}
	return []event{e}
}

// watch tells of a report of the scheduler.
func (s *shell) watch(e reported) {
	switch {
	case e.Present != nil:
		s.cfg.Observer.ProcessRegistered(e.Present.Process)
	case e.Running:
		s.cfg.Observer.Complete()
	}
}

// ask asks the scheduler beside the loop. An ask without a number cannot be cancelled, and ends with
// the job.
func (s *shell) ask(a ask) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	if a.id != 0 {
		s.asks[a.id] = cancel
	}
	s.working.Go(func() {
		defer cancel(nil)
		if a.limit > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeout(ctx, a.limit)
			defer stop()
		}
		e := answered{id: a.id}
		e.done, e.wanted, e.err = s.askScheduler(ctx, a.Request)
		if a.id != 0 {
			s.send(e)
		}
	})
}

// systemSignal is s as the system knows it.
func systemSignal(s interface{ Signal() }) syscall.Signal {
	if n, ok := s.(syscall.Signal); ok && n != 0 {
		return n
	}
	return syscall.SIGTERM
}
