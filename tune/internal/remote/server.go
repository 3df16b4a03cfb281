package remote

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/files/scratch"
	"github.com/paragon-train/paragon/internal/store/unauthenticated"
)

const (
	// helloTimeout bounds the time from a connection to its hello.
	helloTimeout = 10 * time.Second
	// maxUnauthenticated bounds the connections that have not sent a valid hello. Half of them
	// may come from one host, whose processes of a trial start together.
	maxUnauthenticated = 256
	// sendTimeout is how long a process may take to read an answer.
	sendTimeout = 30 * time.Second
)

// A Backend handles the requests of one attempt. Decide and Checkpoint are called for rank 0 alone.
type Backend interface {
	Decide(step int, metrics map[string]float64) (Answer, error)
	// Checkpoint calls write with a folder to fill, unless the step was saved before.
	Checkpoint(step int, write func(dir string) error) error
	// Alive is called when a part of a checkpoint has been copied, for each rank that gets one,
	// too.
	Alive()
}

// A Server accepts the processes of trials.
type Server struct {
	listener net.Listener
	address  string
	// dir has the socket; nil for TCP.
	dir     *scratch.Folder
	serving sync.WaitGroup
	// limit bounds the bytes of a checkpoint that is copied.
	limit int64
	// unauthenticated are the connections that have not sent a valid hello.
	unauthenticated unauthenticated.Conns

	// mu guards all below.
	mu       sync.Mutex
	sessions map[string]*Session
	conns    map[net.Conn]bool
	closed   bool
}

// Listen accepts processes of this machine at a Unix socket of this user or, if host is not empty,
// processes of other machines at a free TCP port of that address. limit bounds the bytes of a
// checkpoint that is copied from another machine.
func Listen(host string, limit int64) (*Server, error) {
	s := &Server{limit: limit, sessions: make(map[string]*Session), conns: make(map[net.Conn]bool), unauthenticated: unauthenticated.Conns{Most: maxUnauthenticated}}
	var err error
	if host == "" {
		// The path of a socket is short: a folder of the study may be too deep.
		if s.dir, err = scratch.New("tune"); err != nil {
			return nil, fmt.Errorf("tune: listen: %w", err)
		}
		path := filepath.Join(s.dir.Path, "socket")
		if s.listener, err = net.Listen("unix", path); err != nil {
			return nil, errors.Join(fmt.Errorf("tune: listen: %w", err), s.dir.Remove())
		}
		s.address = "unix:" + path
	} else {
		if s.listener, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
			return nil, fmt.Errorf("tune: listen: %w", err)
		}
		s.address = "tcp:" + s.listener.Addr().String()
	}
	s.serving.Go(s.accept)
	return s, nil
}

// Close closes all connections and returns when all goroutines have ended.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
	for _, session := range s.sessions {
		session.close()
	}
	s.mu.Unlock()
	err := s.listener.Close()
	s.serving.Wait()
	if s.dir != nil {
		err = errors.Join(err, s.dir.Remove())
	}
	return err
}

// accept serves each process in a goroutine of its own until the server is closed.
func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			s.mu.Lock()
			closed := s.closed
			s.mu.Unlock()
			if closed || errors.Is(err, net.ErrClosed) {
				return
			}
			// The process may be out of files: others may close theirs.
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if out := s.unauthenticated.Enter(c); out != nil {
			if out.Close(); out == c {
				continue
			}
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			c.Close()
			return
		}
		s.conns[c] = true
		s.mu.Unlock()
		s.serving.Go(func() {
			s.serve(c)
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
			c.Close()
		})
	}
}

// serve serves one process.
func (s *Server) serve(c net.Conn) {
	w := newWire(c)
	defer s.unauthenticated.Leave(c)
	_ = c.SetDeadline(time.Now().Add(helloTimeout))
	m, err := w.receive()
	if long, ok := tooLong(err); ok && long.Line() {
		_ = json.NewEncoder(c).Encode(refuse(versionError(1)))
	}
	if err != nil || m.Hello == nil {
		return
	}
	session, err := s.find(*m.Hello)
	if err != nil {
		_ = w.send(refuse(err))
		return
	}
	s.unauthenticated.Leave(c)
	_ = c.SetDeadline(time.Time{})
	switch {
	case m.Hello.Host != "":
		session.hold(c, w, *m.Hello)
		return
	case m.Hello.Copy != "":
		session.copy(c, w, *m.Hello)
		return
	}
	session.serve(c, w, m.Hello.Rank)
}

// maxNumber bounds the numbers of workers.
const maxNumber = 1 << 24

// find returns the session of a token.
func (s *Server) find(h hello) (*Session, error) {
	if h.Version != version {
		return nil, versionError(h.Version)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, session := range s.sessions {
		if subtle.ConstantTimeCompare([]byte(token), []byte(h.Token)) == 1 {
			if h.Rank < 0 || h.Rank >= session.task.Workers && !session.task.Elastic || h.Rank > maxNumber {
				return nil, fmt.Errorf("rank %d: trial %d has %d workers", h.Rank, session.task.Trial, session.task.Workers)
			}
			return session, nil
		}
	}
	return nil, errors.New("unknown token: the trial has ended, or belongs to another search")
}

func versionError(theirs int) error {
	return fmt.Errorf("the trial's program speaks version %d with its search, want %d: build it with the same version of Paragon as the search", theirs, version)
}

// A Session is one attempt of a trial.
type Session struct {
	server *Server
	token  string
	task   Task
	own    func(rank int) (cpus []int, gpus []string)
	// slots is set for elastic trials alone.
	slots   Slots
	backend Backend

	// mu guards the rest.
	mu sync.Mutex
	// changed tells that the rest has changed, or the session is over.
	changed *sync.Cond
	over    bool
	conns   map[net.Conn]bool

	ranks    roster
	verdicts verdicts
	// A timer of silent ends the waits for a rank whose connection closed before it said how it
	// ended.
	silent []*time.Timer

	// saving has what is being received of the checkpoint that is being saved, by the ranks
	// that copy files of it. parts are what those on other hosts than rank 0's are to copy, by
	// rank.
	saving map[int]*saving
	parts  map[int]*part
	// copies are the connections for files, by the hello that they began with.
	copies map[hello]net.Conn
	// folders are those in which a command keeps its state, by the first rank on each host,
	// which made it.
	folders map[int]string
}

// A saving is a checkpoint that a rank saves.
type saving struct {
	rank int
	// began is called when the files begin to come. By then they no longer change.
	began func()
	*treeReceiver
}

// silentEndTimeout bounds how long other ranks wait for one whose connection has closed before it
// said how it ended. Until then the end of its process, which says what went wrong, is to be the
// first one.
const silentEndTimeout = 30 * time.Second

// Open begins a session for an attempt. own, unless it is nil, returns the processors and GPUs of a
// rank.
func (s *Server) Open(task Task, own func(rank int) (cpus []int, gpus []string), b Backend) *Session {
	return s.open(&Session{task: task, own: own, backend: b})
}

// Slots are those of the hosts of an elastic trial.
type Slots interface {
	// Hold waits for a slot of a host for the worker of this number. release gives it back.
	Hold(ctx context.Context, number int, host string) (h Held, release func(), err error)
}

// OpenElastic is Open for an attempt whose workers come and go.
func (s *Server) OpenElastic(task Task, slots Slots, b Backend) *Session {
	task.Elastic = true
	return s.open(&Session{task: task, slots: slots, backend: b})
}

// open gives a session its token, by which processes find it from now on.
func (s *Server) open(x *Session) *Session {
	var token [24]byte
	rand.Read(token[:])
	x.server, x.token = s, hex.EncodeToString(token[:])
	x.ranks, x.verdicts, x.conns = newRoster(), newVerdicts(), make(map[net.Conn]bool)
	x.copies, x.saving, x.parts, x.folders = make(map[hello]net.Conn), make(map[int]*saving), make(map[int]*part), make(map[int]string)
	x.changed = sync.NewCond(&x.mu)
	s.mu.Lock()
	s.sessions[x.token] = x
	s.mu.Unlock()
	return x
}

// Environment has the variables by which the attempt's processes find the session.
func (x *Session) Environment() []string {
	return []string{AddressVariable + "=" + x.server.address, TokenVariable + "=" + x.token}
}

// Joined is the number of workers that have connected.
func (x *Session) Joined() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.ranks.joined)
}

// Ended is how ranks ended, by rank: those that reported it or lost their connection.
func (x *Session) Ended() map[int]Done {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.ranks.left)
}

// Close ends the session and closes the connections of its processes.
func (x *Session) Close() {
	x.server.mu.Lock()
	delete(x.server.sessions, x.token)
	x.server.mu.Unlock()
	x.close()
}

// close ends all that waits in the session, and its connections.
func (x *Session) close() {
	x.mu.Lock()
	x.over = true
	for _, t := range x.silent {
		t.Stop()
	}
	for c := range x.conns {
		c.Close()
	}
	x.changed.Broadcast()
	x.mu.Unlock()
}

// serve answers the requests of a rank until its connection closes.
func (x *Session) serve(c net.Conn, w *wire, rank int) {
	switch x.join(c, rank) {
	case tooLate:
		return
	case twice:
		_ = w.send(refuseText(fmt.Sprintf("rank %d of trial %d has connected already", rank, x.task.Trial)))
		return
	}
	defer x.leave(c, rank)
	task := x.task
	if x.own != nil {
		task.CPUs, task.GPUs = x.own(rank)
	}
	answer := message{Task: &task}
	for {
		_ = c.SetWriteDeadline(time.Now().Add(sendTimeout))
		if err := w.send(answer); err != nil || answer.Bye != nil {
			return
		}
		m, err := w.receive()
		if err != nil {
			return
		}
		if answer = x.answer(c, w, rank, m); answer.kinds() == 0 {
			return
		}
	}
}

// A joining is what becomes of a rank that connects.
type joining uint8

const (
	// joined is a rank that is there now.
	joined joining = iota
	// tooLate is one that came when the trial had ended.
	tooLate
	// twice is one that is or was there already.
	twice
)

// join takes note of a rank that has connected.
func (x *Session) join(c net.Conn, rank int) joining {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return tooLate
	}
	if !x.ranks.join(rank, x.task.Elastic) {
		return twice
	}
	x.conns[c] = true
	return joined
}

// leave takes note of a rank whose connection has closed. If the first rank on a host has not said
// how it ended, the others on the host wait for it no longer than silentEndTimeout.
func (x *Session) leave(c net.Conn, rank int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.conns, c)
	said := x.ranks.leave(rank)
	if !said && rank == x.task.Leader(rank) && !x.task.Elastic && !x.over {
		x.silent = append(x.silent, time.AfterFunc(silentEndTimeout, func() { x.isThrough(rank) }))
	}
	x.changed.Broadcast()
}

// answer answers a request of a rank. The zero message closes the connection.
func (x *Session) answer(c net.Conn, w *wire, rank int, m message) message {
	leads := rank == x.task.Leader(rank)
	switch {
	case m.Report != nil:
		return x.report(rank, *m.Report)
	case m.Checkpoint != nil && x.task.Elastic && !x.leads(rank):
		return message{Folder: &folder{}}
	case m.Checkpoint != nil && (rank == 0 || x.task.Elastic):
		return x.checkpoint(c, w, rank, m.Checkpoint.Step)
	case m.Ready != nil && leads:
		return x.ready(rank, m.Ready.Dir)
	case m.Await != nil:
		return x.awaitFolder(x.task.Leader(rank))
	case m.Others != nil && leads:
		// The rank's command has ended: one of the others may wait for a report of it.
		if !x.task.Elastic {
			x.isThrough(rank)
		}
		return x.awaitOthers(rank)
	case m.Done != nil:
		return x.done(rank, *m.Done)
	}
	_ = w.send(refuseText("want a request"))
	return message{}
}

// ready takes the folder that the first rank on a host has made.
func (x *Session) ready(rank int, dir string) message {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.folders[rank] = dir
	x.changed.Broadcast()
	return message{Kept: &struct{}{}}
}

// done takes how a rank has ended.
func (x *Session) done(rank int, d Done) message {
	x.mu.Lock()
	x.ranks.left[rank] = d
	x.mu.Unlock()
	if !x.task.Elastic {
		x.isThrough(rank)
	}
	return message{Bye: &struct{}{}}
}

// awaitFolder waits until the first rank on a host has made the folder of the command's state.
func (x *Session) awaitFolder(leader int) message {
	x.mu.Lock()
	defer x.mu.Unlock()
	for {
		switch {
		case x.over:
			return refuseText("the trial has ended")
		case x.folders[leader] != "":
			return message{Folder: &folder{x.folders[leader]}}
		case x.ranks.through[leader]:
			return refuseText(fmt.Sprintf("rank %d has ended before it had the folder", leader))
		}
		x.changed.Wait()
	}
}

// awaitOthers waits until the ranks that share a host with its first one, and have connected, have
// ended.
func (x *Session) awaitOthers(leader int) message {
	x.mu.Lock()
	defer x.mu.Unlock()
	for !x.over {
		if x.ranks.isAlone(leader, x.task.Leader) {
			return message{Kept: &struct{}{}}
		}
		x.changed.Wait()
	}
	return refuseText("the trial has ended")
}

// isThrough ends the waits for a rank: for a report of rank 0, and for the folder that the first
// rank on a host makes.
func (x *Session) isThrough(rank int) {
	x.mu.Lock()
	x.ranks.through[rank] = true
	x.changed.Broadcast()
	x.mu.Unlock()
}

// report answers a report: that of rank 0 by a decision, and that of another rank as rank 0's of the
// same step, for which it waits.
func (x *Session) report(rank int, r report) message {
	if rank == 0 && !x.task.Elastic {
		return x.decide(r)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for {
		if a, ok := x.verdicts.answers[r.Step]; ok {
			return message{Answer: &a}
		}
		if x.task.Elastic && x.ranks.first() == rank && !x.over {
			x.mu.Unlock()
			m := x.decide(r)
			x.mu.Lock()
			return m
		}
		switch {
		case x.over:
			return refuseText("the trial has ended")
		case x.verdicts.latest > r.Step:
			return refuseText(fmt.Sprintf("rank 0 has reported step %d, but not step %d: all ranks report the same steps", x.verdicts.latest, r.Step))
		case x.ranks.through[0]:
			return refuseText(fmt.Sprintf("rank 0 has ended without a report of step %d", r.Step))
		}
		x.changed.Wait()
	}
}

// decide asks for the decision about a report that counts.
func (x *Session) decide(r report) message {
	a, err := x.backend.Decide(r.Step, r.Metrics)
	if err != nil {
		return refuse(err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.verdicts.add(r.Step, a)
	x.changed.Broadcast()
	return message{Answer: &a}
}

// leads says whether a rank's reports and checkpoints count.
func (x *Session) leads(rank int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ranks.first() == rank
}

// hold gives a worker of an elastic trial a slot. It has the slot until its connection closes,
// which is when all of its processes have ended.
func (x *Session) hold(c net.Conn, w *wire, h hello) {
	if x.slots == nil {
		_ = w.send(refuseText(fmt.Sprintf("trial %d is not elastic: its workers have no slots", x.task.Trial)))
		return
	}
	x.mu.Lock()
	if x.over {
		x.mu.Unlock()
		return
	}
	x.conns[c] = true
	x.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		// The worker has nothing more to say: receive returns when the connection ends.
		_, _ = w.receive()
		cancel()
	})
	defer func() {
		c.Close()
		reading.Wait()
		x.mu.Lock()
		delete(x.conns, c)
		x.mu.Unlock()
	}()
	waiting, stop := context.WithTimeoutCause(ctx, slotTimeout, fmt.Errorf("no slot of %s was free for %v", h.Host, slotTimeout))
	held, release, err := x.slots.Hold(waiting, h.Rank, h.Host)
	stop()
	if err != nil {
		_ = w.send(refuse(err))
		return
	}
	defer release()
	_ = c.SetWriteDeadline(time.Now().Add(sendTimeout))
	if w.send(message{Held: &held}) == nil {
		<-ctx.Done()
	}
}

// slotTimeout bounds the wait of a worker for its slot, which may still be that of a process that
// is ending.
const slotTimeout = 20 * time.Second

// checkpoint lets the process write a checkpoint. It returns an empty message if the connection is
// broken.
func (x *Session) checkpoint(c net.Conn, w *wire, rank, step int) message {
	asked, broken := false, false
	err := x.backend.Checkpoint(step, func(dir string) error {
		asked = true
		others, err := x.prepare(step, dir)
		if err != nil {
			return err
		}
		defer others.end()
		in := x.expect(rank, dir, others.begin)
		defer x.expectNothing(in)
		_ = c.SetWriteDeadline(time.Now().Add(sendTimeout))
		if err := w.send(message{Folder: &folder{dir}}); err != nil {
			broken = true
			return err
		}
		m, err := w.receive()
		switch {
		case err != nil:
			broken = true
			return err
		case m.Written == nil:
			broken = true
			return errors.New("the process did not confirm its checkpoint")
		case m.Written.Error != "":
			return errors.New(m.Written.Error)
		case m.Written.Copied && !in.complete():
			return errors.New("not all files of the checkpoint came")
		}
		others.begin()
		return others.finish()
	})
	switch {
	case broken:
		return message{}
	case err != nil:
		return refuse(err)
	case !asked:
		return message{Folder: &folder{}}
	}
	return message{Kept: &struct{}{}}
}

// refuse is the answer to a request that failed.
func refuse(err error) message { return refuseText(err.Error()) }

// refuseText is refuse with a text.
func refuseText(text string) message { return message{Error: &failure{Text: text}} }
