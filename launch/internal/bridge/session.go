package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/version"
)

// Python gives the bridge 5 s to end, and then kills it: so much do these times add up to at most.
const (
	// tellTime bounds the note that says why the session ends, where Python does not read.
	tellTime = 200 * time.Millisecond
	// closeTime bounds leaving the job.
	closeTime = 4500 * time.Millisecond
	// restTime bounds the end of what runs after that.
	restTime = 250 * time.Millisecond
)

// A session is the part of one Python process in a job. Its parts have locks of their own.
type session struct {
	conn       *conn
	log        *slog.Logger
	operations map[string]operation
	// getenv has the variables that describe the job, which create joins.
	getenv func(string) string
	create func(ctx context.Context, kind string, opts ...kvstore.Option) (kvstore.Store, error)
	// waitingEvery is how often the log says whom a call waits for.
	waitingEvery time.Duration

	// python is the process whose session it is.
	python int

	// ctx ends with the session, with the reason.
	ctx context.Context
	end context.CancelCauseFunc

	member   membership
	requests requests
	memory   memory
	plans    plans
	// waiting has notes about waits that are to be sent.
	waiting   chan waitingNote
	exchanges exchanges
	turns     turns
	rows      rows
	reports   reports
}

func newSession(c *conn, log *slog.Logger, getenv func(string) string) *session {
	s := &session{conn: c, log: log, getenv: getenv, python: os.Getppid(), create: kvstore.Create, operations: operations, waitingEvery: waitingEvery, waiting: make(chan waitingNote, 4)}
	s.memory.most, s.turns.mostCounted = machineMemory(), maxCounted
	s.exchanges.work = make(chan *exchange)
	s.ctx, s.end = context.WithCancelCause(context.Background())
	return s
}

// errClosed ends a session that Python has closed.
var errClosed = errors.New("closed")

// errGone ends a session whose Python has ended without close.
var errGone = errors.New("it did not close the store")

// hello sends the first packet.
func (s *session) hello() error {
	note := helloNote{Note: "hello", Protocol: protocol, Release: version.Number, PID: os.Getpid()}
	if err := s.conn.sendJSON(headNote, note, -1); err != nil {
		return fmt.Errorf("bridge: send the hello: %w", err)
	}
	return nil
}

// serve reads packets until the session ends, leaves the job, and returns why it ended: nil after
// close.
func (s *session) serve() error {
	var reading sync.WaitGroup
	reading.Go(func() { s.end(s.read()) })
	reading.Go(s.sendWaiting)
	<-s.ctx.Done()
	cause := context.Cause(s.ctx)
	if errors.Is(cause, errProtocol) {
		s.tellFailure(cause)
	}
	if !errors.Is(cause, errClosed) {
		s.member.abort(cause)
	}
	s.conn.socket.Close()
	// What still runs after that, such as a file that is written, ends with the process.
	_ = within(restTime, func() error {
		reading.Wait()
		s.exchanges.wg.Wait()
		s.requests.wg.Wait()
		s.reports.close()
		return nil
	})
	if errors.Is(cause, errClosed) {
		return nil
	}
	return cause
}

// read takes packets, and returns why there are no more.
func (s *session) read() error {
	b := make([]byte, maxPacket+1)
	for {
		n, err := s.conn.receive(b)
		switch {
		case errors.Is(err, errProtocol):
			return err
		case errors.Is(err, io.EOF):
			return s.gone()
		case err != nil:
			return fmt.Errorf("%w: %w", s.gone(), err)
		}
		switch b[0] {
		case kindJSON:
			err = s.startRequest(append([]byte(nil), b[1:n]...))
		case kindExchange:
			err = s.startExchange(b[:n])
		default:
			err = fmt.Errorf("bridge: %w: a packet of kind %q came, want %q or %q", errProtocol, b[0], kindJSON, kindExchange)
		}
		if err != nil {
			return err
		}
	}
}

// gone is why the session ends when its Python has.
func (s *session) gone() error {
	return fmt.Errorf("its Python process %d ended, and %w", s.python, errGone)
}

// tellFailure tells Python why the session ends, where the socket has room.
func (s *session) tellFailure(cause error) {
	if err := s.conn.socket.SetWriteDeadline(time.Now().Add(tellTime)); err != nil {
		return
	}
	s.note(failedNote{Note: "failed", Error: errorOf(cause)}, -1)
}

// note sends a note. That the other end is gone is noticed by the reader.
func (s *session) note(note any, fd int) {
	if err := s.conn.sendJSON(headNote, note, fd); err != nil {
		s.log.Debug("a note could not be sent", "error", err)
	}
}

// storeLog is the log of the store.
func (s *session) storeLog() *slog.Logger { return slog.New(waitingNotes{s.log.Handler(), s.waiting}) }

// A membership is the session's store, once it has joined.
type membership struct {
	mu    sync.Mutex
	store kvstore.Store
	// joining says that a join is under way, left that the session has ended.
	joining, left bool
}

// get returns the store, or an error before join.
func (m *membership) get() (kvstore.Store, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.store == nil {
		return nil, usage("bridge: the session has not joined a job; the first request is join")
	}
	return m.store, nil
}

// begin says that a join begins; another one must not be under way or done.
func (m *membership) begin() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.joining || m.store != nil {
		return usage("bridge: join was called before; a session is one member of one job")
	}
	m.joining = true
	return nil
}

// joined takes the store of a join, or its error, after which join may be called again.
func (m *membership) joined(store kvstore.Store, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.joining = false
	if err != nil {
		return
	}
	m.store = store
	if m.left {
		_ = store.Abort(errors.New("its Python process ended while it joined"))
	}
}

// leave returns the store for the end of the session; nil: it has not joined. A join under way
// leaves at once when it is done.
func (m *membership) leave() kvstore.Store {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = true
	return m.store
}

// abort leaves the job because of cause, within closeTime.
func (m *membership) abort(cause error) {
	if store := m.leave(); store != nil {
		_ = within(closeTime, func() error { return store.Abort(cause) })
	}
}

// within returns f's error, or one that says that it takes too long. f may go on after that; the
// process ends.
func within(most time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(most):
		return fmt.Errorf("%w: leaving the job takes longer than %v", kvstore.ErrUnavailable, most)
	}
}
