package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A shell carries requests from the intake to the core, and answers back. All of it, and the core,
// belongs to the goroutine of loop.
//
// Outputs are held until their records are in the journal. Only then are notes logged and answers
// sent, so that nobody hears of what a restart would take back.
type shell struct {
	log  *slog.Logger
	cfg  Config
	core *Core
	in   *intake
	news *launcherNews
	// journal is nil if nothing is kept.
	journal *journalWriter

	// waits has the channels of the requests that were not answered.
	waits map[uint64]chan<- wire.Message
	// held are the outputs whose records are not in the journal yet.
	held []Output
	// read says that what came before has been taken from the intake.
	read time.Time
	// awake is when the loop last ran.
	awake time.Time
	// interrupted says that the job was open when the context ended.
	interrupted bool
}

const (
	// stampDelay is how long a request may take from the time it is stamped with to its place
	// in the queue.
	stampDelay = 100 * time.Millisecond
	// runsPerHeartbeat is how often the loop wakes at least, to notice that it could not run:
	// twice the time between two is a stall.
	runsPerHeartbeat = 4
	// maxBatch bounds the events whose records are written to the journal at once.
	maxBatch = 256
)

func newShell(cfg Config, core *Core, state State) *shell {
	s := &shell{log: cfg.Logger, cfg: cfg, core: core, in: newIntake(), news: &launcherNews{log: cfg.Logger, line: cfg.Report}, waits: make(map[uint64]chan<- wire.Message)}
	if state != nil {
		s.journal = &journalWriter{log: cfg.Logger, state: state, giveUp: cfg.SchedulerTimeout, meanwhile: s.answerLooks}
	}
	return s
}

// clocks are what wakes the loop beside requests.
type clocks struct {
	deadline *time.Timer
	runs     *time.Ticker
	say      *time.Ticker
	// end ends the loop, once the job has ended.
	end <-chan time.Time
}

func newClocks(every time.Duration) *clocks {
	return &clocks{deadline: time.NewTimer(0), runs: time.NewTicker(every), say: time.NewTicker(sayAfter)}
}

func (c *clocks) stop() {
	c.deadline.Stop()
	c.runs.Stop()
	c.say.Stop()
}

// arm sets the timer to a deadline; zero: there is none.
func (c *clocks) arm(next time.Time) {
	if next.IsZero() {
		c.deadline.Stop()
	} else {
		c.deadline.Reset(time.Until(next))
	}
}

// loop steps the core until the job has ended and all nodes know, or the journal cannot be written
// any more.
func (s *shell) loop(ctx context.Context) error {
	c := newClocks(s.runEvery())
	defer c.stop()
	s.awake = time.Now()
	s.read = s.awake
	stop := ctx.Done()
	for {
		if err := s.flush(ctx); err != nil {
			return err
		}
		s.news.tell(s.core)
		if c.end == nil && s.phase() > wire.PhaseRunning {
			c.end = time.After(linger)
			if a := s.core.Adaptation(); a != nil {
				s.news.report(control.Report{Adaptation: a})
			}
		}
		if s.core.Settled() {
			return nil
		}
		c.arm(s.core.Next())
		select {
		case r := <-s.in.begin:
			s.wake()
			s.take(r)
		case r := <-s.in.looks:
			s.wake()
			s.takeLook(r)
		case reply := <-s.cfg.Telemetry:
			s.wake()
			s.step(Event{At: time.Now()})
			reply <- s.core.Telemetry()
		case <-c.deadline.C:
			s.wake()
			s.catchUp()
			s.step(Event{At: time.Now()})
		case <-c.runs.C:
			s.wake()
		case <-c.say.C:
			s.say()
		case <-stop:
			if s.journal != nil && errors.Is(context.Cause(ctx), ErrHandOver) {
				return ErrHandOver
			}
			stop = nil
			c.end = time.After(lingerStopped)
			s.interrupt(context.Cause(ctx))
		case <-c.end:
			return nil
		}
		s.more()
	}
}

// phase is the job's phase.
func (s *shell) phase() uint8 {
	phase, _ := s.core.Phase()
	return phase
}

// runEvery is the time after which the loop wakes at least.
func (s *shell) runEvery() time.Duration { return s.core.Heartbeat() / runsPerHeartbeat }

// say logs whom the job waits for.
func (s *shell) say() {
	if w := s.core.Waiting(); len(w) > 0 {
		s.log.Info("waiting for "+strings.Join(w, ", "), joblog.Waiting.With("waiting_for", strings.Join(w, ", ")))
	} else if w := s.core.Pending(sayAfter); w != "" {
		s.log.Info("waiting: "+w, joblog.Waiting.With("waiting_for", w))
	}
	if w := s.core.InGrace(); len(w) > 0 {
		s.log.Warn("waiting for "+strings.Join(w, "; "), joblog.Waiting.With("waiting_for", strings.Join(w, "; ")))
	}
}

// interrupt ends the job, since the context has ended.
func (s *shell) interrupt(cause error) {
	s.interrupted = s.phase() <= wire.PhaseRunning
	s.step(Event{At: time.Now(), Stop: "the scheduler was stopped: " + cause.Error()})
}

// wake notes that the loop runs. If it did not for long, because the process was stopped or waited
// for the journal, the core must not take the nodes for silent: their requests have waited, or were
// lost with connections that the nodes gave up.
func (s *shell) wake() {
	now := time.Now()
	if stalled := now.Sub(s.awake); stalled > 2*s.runEvery() {
		s.step(Event{At: now, Stalled: stalled})
	}
	s.awake = now
}

// catchUp takes the requests that wait, before a deadline is acted on. With many of them it stops
// early: the deadlines that are later than the newest one taken must wait.
func (s *shell) catchUp() {
	begun := time.Now()
	for range maxBatch {
		select {
		case r := <-s.in.begin:
			s.take(r)
		default:
			s.read = begun
			return
		}
	}
}

// more takes the requests that have come already, so that one write covers them all, and one look
// at the deadlines.
func (s *shell) more() {
	for len(s.held) < maxBatch {
		select {
		case r := <-s.in.begin:
			s.take(r)
		default:
			return
		}
	}
}

// take takes a request, or the news that the sender of one is gone.
func (s *shell) take(r registration) {
	if r.event.Message == nil {
		delete(s.waits, r.event.Request)
	} else {
		s.waits[r.event.Request] = r.reply
	}
	// Others that are older may not have been put into the queue yet.
	if read := r.event.At.Add(-stampDelay); read.After(s.read) {
		s.read = read
	}
	s.step(r.event)
}

// takeLook takes a request that only looks at the job. It has not waited behind those of begin, so
// it says nothing of what was read.
func (s *shell) takeLook(r registration) {
	s.waits[r.event.Request] = r.reply
	s.step(r.event)
}

// step steps the core and holds its output. That the job has failed is told to the launcher at once;
// all else waits for the journal.
func (s *shell) step(e Event) {
	e.Read = s.read
	before := s.phase()
	out := s.core.Step(e)
	if after := s.phase(); after == wire.PhaseFailed && before != after && e.Stop == "" {
		s.news.report(control.Report{Failed: s.core.Failure()})
	}
	s.held = append(s.held, out)
}

// flush writes the records of the held outputs to the journal, and then sends their replies. While
// the journal cannot be written no reply is sent, except to those who only look at the job: for the
// nodes the scheduler is out of reach. It gives up after their SchedulerTimeout, when no node waits
// any more.
func (s *shell) flush(ctx context.Context) error {
	var records []Record
	for _, out := range s.held {
		records = append(records, out.Records...)
	}
	if s.journal != nil && len(records) > 0 {
		if err := s.journal.write(ctx, records); err != nil {
			return err
		}
	}
	for _, out := range s.held {
		s.send(ctx, out)
	}
	s.held = s.held[:0]
	return nil
}

// send logs and answers what an output has. The channels of answers have room for one.
func (s *shell) send(ctx context.Context, out Output) {
	for _, n := range out.Notes {
		s.log.LogAttrs(ctx, slog.LevelInfo, n.Text, n.attrs()...)
	}
	for _, n := range out.Warnings {
		s.log.LogAttrs(ctx, slog.LevelWarn, n.Text, n.attrs()...)
	}
	for _, x := range out.Presence {
		s.news.present(x)
	}
	for _, a := range out.Answers {
		if reply := s.waits[a.Request]; reply != nil {
			reply <- a.Message
			delete(s.waits, a.Request)
		}
	}
}

// answerLooks answers those who only look at the job until one of the channels is ready.
func (s *shell) answerLooks(fault journalFault, until <-chan time.Time, end <-chan struct{}) {
	for {
		select {
		case r := <-s.in.looks:
			r.reply <- s.core.Look(time.Now(), r.event.Message.(*wire.Control), fault)
		case <-until:
			return
		case <-end:
			return
		}
	}
}
