package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/identity"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A shell carries requests from the connections to the core and answers back. The core belongs to
// the goroutine of loop.
type shell struct {
	log     *slog.Logger
	cfg     Config
	state   State            // nil: nothing is kept
	ran     bool             // of loop: it was told that the job is complete
	stops   bool             // of loop: it was told that the job stops with a checkpoint
	stopped *control.Stopped // of loop: what it was told that the job can go on from
	held    []Output         // of loop: not in the journal yet, so their replies wait
	stop    bool             // of loop: the job was open when the context ended
	last    atomic.Uint64    // number of the last request
	begin   chan registration
	looks   chan registration              // of requests that only look at the job, which are answered also while the journal cannot be written
	waits   map[uint64]chan<- wire.Message // of loop
	read    time.Time                      // of loop: what came before has been taken from begin
	awake   time.Time                      // of loop: when it last ran
	ended   chan struct{}                  // nobody takes requests any more
}

// A registration is a request with the channel for its answer. Without a message it says that the
// sender of an earlier one is gone. Both come through one channel, so what a node asks after its
// connection broke is never taken before the news of that.
type registration struct {
	event Event
	reply chan<- wire.Message
}

// stampDelay is how long a request may take from the time it is stamped with to its place in the
// queue.
const stampDelay = 100 * time.Millisecond

// runsPerHeartbeat is how often the loop wakes at least, to notice that it could not run: twice the
// time between two is a stall.
const runsPerHeartbeat = 4

// maxBatch bounds the events whose records are written to the journal at once.
const maxBatch = 256

// loop steps the core until the job has ended and all nodes know, or the journal cannot be written
// any more.
func (s *shell) loop(ctx context.Context, core *Core) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	say := time.NewTicker(sayAfter)
	defer say.Stop()
	every := core.Heartbeat() / runsPerHeartbeat
	runs := time.NewTicker(every)
	defer runs.Stop()
	s.awake = time.Now()
	s.read = s.awake
	stop := ctx.Done()
	var end <-chan time.Time
	for {
		if err := s.flush(ctx, core); err != nil {
			return err
		}
		phase, _ := core.Phase()
		if phase == wire.PhaseRunning && !s.ran {
			s.ran = true
			s.report(control.Report{Running: true})
		}
		s.reportStop(core)
		if end == nil && phase > wire.PhaseRunning {
			end = time.After(linger)
			if a := core.Adaptation(); a != nil {
				s.report(control.Report{Adaptation: a})
			}
		}
		if core.Settled() {
			return nil
		}
		if next := core.Next(); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
		select {
		case r := <-s.begin:
			s.wake(core, 2*every)
			s.take(core, r)
		case r := <-s.looks:
			s.wake(core, 2*every)
			s.takeLook(core, r)
		case reply := <-s.cfg.Telemetry:
			s.wake(core, 2*every)
			s.step(core, Event{At: time.Now()})
			reply <- core.Telemetry()
		case <-timer.C:
			s.wake(core, 2*every)
			s.catchUp(core)
			s.step(core, Event{At: time.Now()})
		case <-runs.C:
			s.wake(core, 2*every)
		case <-say.C:
			if w := core.Waiting(); len(w) > 0 {
				s.log.Info("waiting for "+strings.Join(w, ", "), joblog.Waiting.With("waiting_for", strings.Join(w, ", ")))
			} else if w := core.Pending(sayAfter); w != "" {
				s.log.Info("waiting: "+w, joblog.Waiting.With("waiting_for", w))
			}
			if w := core.InGrace(); len(w) > 0 {
				s.log.Warn("waiting for "+strings.Join(w, "; "), joblog.Waiting.With("waiting_for", strings.Join(w, "; ")))
			}
		case <-stop:
			stop = nil
			if s.state != nil && errors.Is(context.Cause(ctx), ErrHandOver) {
				return ErrHandOver
			}
			phase, _ := core.Phase()
			s.stop = phase <= wire.PhaseRunning // which it was before
			end = time.After(lingerStopped)
			s.step(core, Event{At: time.Now(), Stop: "the scheduler was stopped: " + context.Cause(ctx).Error()})
		case <-end:
			return nil
		}
		s.more(core)
	}
}

// wake notes that the loop runs. If it did not for long, because the process was stopped or waited
// for the journal, the core must not take the nodes for silent: their requests have waited, or were
// lost with connections that the nodes gave up.
func (s *shell) wake(core *Core, most time.Duration) {
	now := time.Now()
	if stalled := now.Sub(s.awake); stalled > most {
		s.step(core, Event{At: now, Stalled: stalled})
	}
	s.awake = now
}

// catchUp takes the requests that wait, before a deadline is acted on. With many of them it stops
// early: the deadlines that are later than the newest one taken must wait.
func (s *shell) catchUp(core *Core) {
	begun := time.Now()
	for range maxBatch {
		select {
		case r := <-s.begin:
			s.take(core, r)
		default:
			s.read = begun
			return
		}
	}
}

// reportStop tells the launcher of a stop with a checkpoint, and what came of it.
func (s *shell) reportStop(core *Core) {
	if reason := core.Stopping(); reason != "" && !s.stops {
		s.stops = true
		s.report(control.Report{Stopping: &control.Stopping{Reason: reason}})
	}
	if x := core.Stopped(); x != s.stopped {
		s.stopped = x
		s.report(control.Report{Stopped: x})
	}
}

// more takes the requests that have come already, so that one write covers them all, and one look
// at the deadlines.
func (s *shell) more(core *Core) {
	for len(s.held) < maxBatch {
		select {
		case r := <-s.begin:
			s.take(core, r)
		default:
			return
		}
	}
}

func (s *shell) take(core *Core, r registration) {
	if r.event.Message == nil {
		delete(s.waits, r.event.Request)
	} else {
		s.waits[r.event.Request] = r.reply
	}
	if read := r.event.At.Add(-stampDelay); read.After(s.read) { // others that are older may not have been put into the queue yet
		s.read = read
	}
	s.step(core, r.event)
}

// takeLook takes a request that only looks at the job. It has not waited behind those of begin, so
// it says nothing of what was read.
func (s *shell) takeLook(core *Core, r registration) {
	s.waits[r.event.Request] = r.reply
	s.step(core, r.event)
}

func (s *shell) step(core *Core, e Event) {
	e.Read = s.read
	before, _ := core.Phase()
	out := core.Step(e)
	if after, _ := core.Phase(); after == wire.PhaseFailed && before != after && e.Stop == "" {
		s.report(control.Report{Failed: core.Failure()})
	}
	s.held = append(s.held, out)
}

// report sends a report to the launcher.
func (s *shell) report(r control.Report) {
	if s.cfg.Report == nil {
		return
	}
	line, err := r.Line()
	if err != nil {
		s.log.Error("a report to the launcher could not be encoded", "err", err)
		return
	}
	s.cfg.Report(line)
}

// flush writes the records of the held outputs to the journal, and then sends their replies. While
// the journal cannot be written no reply is sent, except to those who only look at the job: for the
// nodes the scheduler is out of reach. It gives up after their SchedulerTimeout, when no node waits
// any more.
func (s *shell) flush(ctx context.Context, core *Core) error {
	var records []Record
	for _, out := range s.held {
		records = append(records, out.Records...)
	}
	begun, said, attempts := time.Now(), time.Time{}, 0
	var failed error // of the last attempt
	for pause := sayAfter; s.state != nil && len(records) > 0; attempts++ {
		err := s.write(ctx, core, records, journalFault{begun, failed})
		if err == nil {
			if attempts > 0 {
				s.log.Warn("journal writes succeed again; held replies are sent", "attempts", attempts, "after", time.Since(begun).Round(time.Millisecond), joblog.JournalWritten.With())
			}
			break
		}
		failed = err
		if since := time.Since(said); said.IsZero() || since >= pause { // at once, then ever more rarely
			if !said.IsZero() {
				pause = min(2*pause, maxSayAfter)
			}
			said = time.Now()
			s.log.Error("journal write failed; replies are held until it succeeds", "err", err, "attempts", attempts+1, "for", time.Since(begun).Round(time.Millisecond), joblog.JournalFailed.With())
		}
		if errors.Is(err, ErrTaken) || time.Since(begun) > s.cfg.SchedulerTimeout || ctx.Err() != nil {
			return err
		}
		again := time.NewTimer(writeAgain)
		s.answerLooks(core, journalFault{begun, failed}, again.C, ctx.Done())
		again.Stop()
	}
	for _, out := range s.held {
		for _, n := range out.Notes {
			s.log.LogAttrs(ctx, slog.LevelInfo, n.Text, n.attrs()...)
		}
		for _, n := range out.Warnings {
			s.log.LogAttrs(ctx, slog.LevelWarn, n.Text, n.attrs()...)
		}
		for _, x := range out.Presence {
			p := &control.Presence{Role: roleName(x.Place.Role), Rank: x.Place.Rank, Process: x.Process}
			if x.Here {
				s.report(control.Report{Present: p})
			} else {
				s.report(control.Report{Absent: p})
			}
		}
		for _, a := range out.Answers {
			if reply := s.waits[a.Request]; reply != nil {
				reply <- a.Message // has room for one
				delete(s.waits, a.Request)
			}
		}
	}
	s.held = s.held[:0]
	return nil
}

// write makes one attempt to write records to the journal. Who looks at the job need not wait for
// one that takes long, or that follows a failed one.
func (s *shell) write(ctx context.Context, core *Core, records []Record, fault journalFault) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	var err error
	written := make(chan time.Time)
	go func() {
		defer close(written)
		err = s.state.Write(ctx, records)
	}()
	if fault.err == nil {
		long := time.NewTimer(writeAgain)
		defer long.Stop()
		select {
		case <-written:
			return err
		case <-long.C:
		}
	}
	s.answerLooks(core, fault, written, nil)
	return err
}

// answerLooks answers those who only look at the job until one of the channels is ready.
func (s *shell) answerLooks(core *Core, fault journalFault, until <-chan time.Time, end <-chan struct{}) {
	for {
		select {
		case r := <-s.looks:
			r.reply <- core.Look(time.Now(), r.event.Message.(*wire.Control), fault) // has room for one
		case <-until:
			return
		case <-end:
			return
		}
	}
}

// refuseRest answers requests that come after the job's end.
func (s *shell) refuseRest(ctx context.Context, core *Core) {
	for {
		select {
		case r := <-s.begin:
			switch r.event.Message.(type) {
			case nil: // its sender is gone
			case *wire.Leave:
				r.reply <- &wire.Ack{}
			default:
				r.reply <- &wire.Nack{Code: wire.CodeUnavailable, Text: "the job has ended"}
			}
		case r := <-s.looks:
			r.reply <- &wire.Nack{Code: wire.CodeUnavailable, Text: "the job has ended"}
		case reply := <-s.cfg.Telemetry:
			reply <- core.Telemetry()
		case <-ctx.Done():
			return
		}
	}
}

// dropRest takes requests without answering them, until done.
func (s *shell) dropRest(done chan struct{}) {
	for {
		select {
		case <-s.begin:
		case <-s.looks:
		case <-done:
			return
		}
	}
}

// admit refuses what a role may not ask: a certificate is for one role. Without one any node may
// ask anything.
func admit(role string, m wire.Message) error {
	if role == "" {
		return nil
	}
	_, asks := m.(*wire.Control)
	if launcher := role == identity.Launcher; launcher != asks {
		return transport.Refuse(wire.CodeUnauthorised, 0, "a %s may not ask for a %v", role, m.Kind())
	}
	if r, ok := m.(*wire.Register); ok && cluster.Role(r.Role).String() != role {
		return transport.Refuse(wire.CodeUnauthorised, 0, "a %s may not register as %v", role, cluster.Role(r.Role))
	}
	return nil
}

// Serve implements transport.Handler.
func (s *shell) Serve(ctx context.Context, r *transport.Request) (transport.Response, error) {
	m := wire.New(r.Kind)
	if m == nil {
		return transport.Response{}, transport.Refuse(wire.CodeUnsupported, 0, "a message of %v is not known", r.Kind)
	}
	if err := wire.DecodeHead(m, r.Head); err != nil {
		return transport.Response{}, err
	}
	if err := admit(r.Peer, m); err != nil {
		return transport.Response{}, err
	}
	reply := make(chan wire.Message, 1)
	e := Event{At: time.Now(), Request: s.last.Add(1), Message: m}
	begin := s.begin
	if looks(m) {
		begin = s.looks
	}
	select {
	case begin <- registration{e, reply}:
	case <-ctx.Done():
		return transport.Response{}, ctx.Err()
	case <-s.ended:
		return transport.Response{}, transport.Refuse(wire.CodeUnavailable, 0, "the job has ended")
	}
	select {
	case m := <-reply:
		return transport.Response{Message: m}, nil
	case <-s.ended:
		return transport.Response{}, transport.Refuse(wire.CodeUnavailable, 0, "the job has ended")
	case <-ctx.Done():
	}
	select {
	case s.begin <- registration{event: Event{At: time.Now(), Request: e.Request}}:
	case <-s.ended:
	}
	return transport.Response{}, ctx.Err()
}

// Buffer implements transport.Handler: nothing that a scheduler is asked has a payload.
func (s *shell) Buffer(r *transport.Request, n int) ([]byte, error) {
	return nil, transport.Refuse(wire.CodeMalformed, 0, "a %v to the scheduler has no payload, got %d bytes", r.Kind, n)
}

// Drop implements transport.Handler.
func (s *shell) Drop(*transport.Request) {}
