package remotecontrol

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/framing"
	"github.com/paragon-train/paragon/internal/member/record"
)

// maxConnections bounds the questions that are answered at once. As many more are told so, and
// others are closed at once.
const maxConnections = 64

// allowed are the operations that launch ctl and launch top need. The others are the launcher's
// own.
var allowed = []string{control.OpStatus, control.OpWhy, control.OpEvents, control.OpAdd, control.OpRemove, control.OpScale, control.OpAddServer, control.OpRemoveServer,
	control.OpCheckpointStop, control.OpTelemetry, control.OpSeries, control.OpTrace, control.OpTraceParts, control.OpTraceEnd}

// Allows reports whether an operation may be asked for from another machine.
func Allows(op string) bool { return slices.Contains(allowed, op) }

// A Job is one that the launcher runs.
type Job struct {
	Record record.Record
	// Carry carries a request to the scheduler. The error of one that was refused has
	// control.ErrRefused in its chain.
	Carry func(ctx context.Context, request []byte) ([]byte, error)
	// Link makes a link to the job's page; empty: it has none.
	Link func() string
}

// A Server answers questions about the job that this launcher runs. The zero Server has no job yet.
// Its methods may be called together.
type Server struct {
	// mu guards the fields below.
	mu sync.Mutex

	// job is nil if it has not started, or is being started again.
	job *Job

	serving int
}

// Started says which job runs. What it returns says that it has ended.
func (s *Server) Started(j Job) (ended func()) {
	j.Record.Credentials, j.Record.Memory = nil, ""
	set := func(j *Job) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.job = j
	}
	set(&j)
	return func() { set(nil) }
}

// enter counts one more connection, if there may be one. busy says that its question cannot be
// answered.
func (s *Server) enter() (busy, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving == 2*maxConnections {
		return true, false
	}
	s.serving++
	return s.serving > maxConnections, true
}

func (s *Server) current() *Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.job
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving--
}

// Serve answers the question of a connection. It does not close the connection.
func (s *Server) Serve(ctx context.Context, conn net.Conn) {
	busy, ok := s.enter()
	if !ok {
		return
	}
	defer s.leave()
	var q question
	conn.SetReadDeadline(time.Now().Add(questionTime))
	if err := framing.ReadJSON(conn, &q, maxQuestion); err != nil {
		s.reply(conn, reply{Error: fmt.Sprintf("the request cannot be read: %v", err)}, nil)
		return
	}
	if busy {
		s.reply(conn, reply{Error: fmt.Sprintf("the launcher is busy with %d other requests; try again", maxConnections)}, nil)
		return
	}
	conn.SetReadDeadline(time.Time{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	// launch ctl sends nothing more unless it has gone away.
	go func() {
		conn.Read(make([]byte, 1))
		cancel()
	}()
	r, answer := answerTo(ctx, q, s.current())
	s.reply(conn, r, answer)
}

// answerTo answers a question about a job; nil: there is none now.
func answerTo(ctx context.Context, q question, job *Job) (r reply, answer []byte) {
	switch {
	case q.Version != version:
		return reply{Error: versionError(q.Version, version).Error()}, nil
	case job == nil:
		return reply{Error: "no job runs there yet: the launcher waits for hosts, or starts the job again; try again when it has started"}, nil
	case !strings.HasPrefix(job.Record.Job, q.Job):
		return reply{Error: fmt.Sprintf("that launcher runs job %s, and none whose ID begins with %q", job.Record.Job, q.Job)}, nil
	}
	if r.Job = job.Record; q.Link {
		r.Link = job.Link()
	}
	if q.Request == nil {
		return r, nil
	}
	request, err := control.DecodeRequest(q.Request)
	if err == nil && !Allows(request.Op) {
		err = fmt.Errorf("operation %q is reserved for the launcher; want one of %s", request.Op, strings.Join(allowed, ", "))
	}
	if err != nil {
		r.Error, r.Refused = err.Error(), true
		return r, nil
	}
	limit := answerTime + time.Duration(request.WaitMillis)*time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	if answer, err = job.Carry(ctx, q.Request); err != nil {
		r.Refused = errors.Is(err, control.ErrRefused)
		r.Error = strings.TrimPrefix(err.Error(), control.ErrRefused.Error()+": ")
		return r, nil
	}
	r.Answer = true
	return r, answer
}

// reply writes the reply, and the answer if it has one.
func (s *Server) reply(conn net.Conn, r reply, answer []byte) {
	r.Version = version
	conn.SetWriteDeadline(time.Now().Add(questionTime))
	err := framing.WriteJSON(conn, r, maxReply)
	if long := (*framing.LengthError)(nil); errors.As(err, &long) {
		r = reply{Version: version, Error: fmt.Sprintf("the reply has %d bytes, want at most %d", long.Length, long.Most)}
		err = framing.WriteJSON(conn, r, maxReply)
	}
	if err == nil && r.Answer {
		// If launch ctl is gone, it sees that by itself.
		_ = framing.Write(conn, answer, control.MaxAnswer)
	}
}
