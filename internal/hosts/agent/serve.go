//go:build unix

package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/process"
)

// lateGrace bounds the grace where the launcher has been gone for the time of a lease already.
const lateGrace = 500 * time.Millisecond

// Supported is nil where Serve can supervise processes.
func Supported() error { return nil }

// Serve runs an agent until in ends, the lease expires, or ctx ends. When it returns, no process
// that it started is left. The error is nil if in or ctx ended.
func Serve(ctx context.Context, in io.Reader, out io.Writer, cfg Config) error {
	cfg.setDefaults()
	s := &server{cfg: cfg, out: &frameWriter{w: out}, children: make(map[uint32]*child)}

	// The kernel kills our children when the thread that forked them ends, so this one must not
	// end before Serve does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer s.removeExitReports()

	if cfg.Adopt {
		stop, err := s.adopt()
		if err != nil {
			return err
		}
		defer stop()
	}
	if err := s.hello(out); err != nil {
		return fmt.Errorf("launch: agent: greet the launcher: %w", err)
	}
	if cfg.Watch != nil {
		watching, stop := context.WithCancel(ctx)
		defer stop()
		go cfg.Watch(watching, func(n Notice) { s.out.sendJSON(kindLeaving, 0, n) })
	}
	done := make(chan struct{})
	defer close(done)
	return s.obey(ctx, readFrames(in, done))
}

func (cfg *Config) setDefaults() {
	cfg.Lease = cmp.Or(cfg.Lease, 4*time.Second)
	cfg.Grace = cmp.Or(cfg.Grace, 3*time.Second)
	cfg.Drain = cmp.Or(cfg.Drain, 20*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.GPUs == nil {
		cfg.GPUs = gpus.Installed
	}
}

// A frameReader has the launcher's frames, and then why there are no more.
type frameReader struct {
	frames chan frame
	err    chan error
}

// readFrames begins to read in. It ends with in, or with the first frame after done is closed.
func readFrames(in io.Reader, done <-chan struct{}) frameReader {
	r := frameReader{make(chan frame), make(chan error, 1)}
	go func() {
		for {
			k, number, body, _, err := readFrame(in, nil)
			if err != nil {
				r.err <- err
				return
			}
			select {
			case r.frames <- frame{k, number, body}:
			case <-done:
				return
			}
		}
	}()
	return r
}

// obey does what the launcher says until it says no more. Then no process is left.
func (s *server) obey(ctx context.Context, launcher frameReader) error {
	lease := newLease(s.cfg.Lease)
	defer lease.timer.Stop()
	for {
		select {
		case f := <-launcher.frames:
			s.handle(ctx, f)
			lease.renew()
		case err := <-launcher.err:
			if errors.Is(err, io.EOF) {
				s.stop(s.cfg.Grace)
				return nil
			}

			// The connection may have had a lease of its own.
			s.stop(min(s.cfg.Grace, lateGrace))
			return fmt.Errorf("launch: agent: read from the launcher: %w", err)
		case <-lease.timer.C:
			if lease.over() {
				s.stop(min(s.cfg.Grace, lateGrace))
				return fmt.Errorf("launch: agent: the launcher has been silent for %s", s.cfg.Lease)
			}
		case <-ctx.Done():
			s.drain(ctx, launcher, lease)
			return nil
		}
	}
}

// drain ends all children by the end of Drain, as on a shutdown of this host. The launcher is told
// first: if it takes the notice, it lets them leave the job, and those that are left get SIGTERM
// when only Grace is left. Else they get SIGTERM at once.
func (s *server) drain(ctx context.Context, launcher frameReader, lease *lease) {
	gone := make(chan struct{})
	go func() {
		s.out.sendJSON(kindLeaving, 0, Notice{Code: NoticeTerminated, Text: "its agent was told to end", Left: s.cfg.Drain})
		s.told.Wait()
		close(gone)
	}()
	begin := time.Now()

	// latest is when the children get SIGTERM even if the launcher has taken the notice.
	latest := max(s.cfg.Drain-s.cfg.Grace, 0)
	limit, term := time.NewTimer(s.cfg.Drain), time.NewTimer(min(noteTime, latest))
	defer limit.Stop()
	defer term.Stop()
	noted := false

	// A program may take a second SIGTERM for a wish to end at once.
	ask := sync.OnceFunc(func() { s.signalAll(syscall.SIGTERM) })
	for {
		select {
		case <-gone:
			s.await(s.cfg.Grace)
			return
		case <-limit.C:
			s.await(0)
			return
		case err := <-launcher.err:
			ask()
			if errors.Is(err, io.EOF) {
				s.await(s.cfg.Grace)
			} else {
				s.await(min(s.cfg.Grace, lateGrace))
			}
			return
		case <-lease.timer.C:
			ask()
			s.await(min(s.cfg.Grace, lateGrace))
			return
		case <-term.C:
			ask()
		case f := <-launcher.frames:
			lease.renew()
			switch {
			case f.kind == kindNoted && !noted:
				noted = true
				term.Reset(max(latest-time.Since(begin), 0))
			case f.kind == kindStart:
				s.out.sendJSON(kindExit, f.number, exitBody{Code: 127, Err: "launch: agent: this agent is shutting down and starts no more processes"})
			default:
				s.handle(ctx, f)
			}
		}
	}
}

// hello writes the opening, which tells an agent from what a shell may print before it, and
// describes this machine.
func (s *server) hello(out io.Writer) error {
	if _, err := io.WriteString(out, opening); err != nil {
		return err
	}
	name, _ := os.Hostname()
	dir, _ := os.Getwd()
	return s.out.sendJSON(kindHello, 0, Hello{Hostname: name, PID: os.Getpid(), Dir: dir, SSHConnection: os.Getenv("SSH_CONNECTION")})
}

func (s *server) handle(ctx context.Context, f frame) {
	switch f.kind {
	case kindStart:
		var spec process.Spec
		err := json.Unmarshal(f.body, &spec)
		if err == nil {
			err = s.start(f.number, spec)
		}
		if err != nil {
			s.out.sendJSON(kindExit, f.number, exitBody{Code: 127, Err: err.Error()})
		}
	case kindSignal:
		var b signalBody
		if err := json.Unmarshal(f.body, &b); err != nil {
			s.cfg.Logger.Warn(fmt.Sprintf("launch: agent: read signal for process %d: %v", f.number, err))
			return
		}
		s.mu.Lock()
		c := s.children[f.number]
		s.mu.Unlock()
		if c != nil {
			c.signal(syscall.Signal(b.Signal))
		}
	case kindAsk:
		go func() { s.out.sendJSON(kindAnswer, f.number, answer(ctx, f.body, s.cfg.GPUs)) }()
	}
}

// stop ends all children: SIGTERM, then SIGKILL after grace.
func (s *server) stop(grace time.Duration) {
	s.signalAll(syscall.SIGTERM)
	s.await(grace)
}

// await returns when all children have ended; after grace they get SIGKILL.
func (s *server) await(grace time.Duration) {
	gone := make(chan struct{})
	go func() { s.running.Wait(); close(gone) }()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-gone:
	case <-timer.C:
		s.signalAll(syscall.SIGKILL)
		timer.Reset(500 * time.Millisecond)
		select {
		case <-gone:
		case <-timer.C:
			// It is stuck in the kernel, for instance on a hung disk. SIGKILL stays pending.
		}
	}
	if s.cfg.Adopt {
		s.killDescendants(500 * time.Millisecond)
	}
}

// signalAll signals all processes that still run.
func (s *server) signalAll(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.children {
		c.signal(sig)
	}
}
