//go:build unix

package agent

import (
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

// server is one agent at work.
type server struct {
	cfg Config
	out *frameWriter
	exitReports

	mu       sync.Mutex // guards children; held from a fork until the child is in it
	children map[uint32]*child
	running  sync.WaitGroup
	told     sync.WaitGroup // children whose exit was not sent yet
}

type frame struct {
	kind   kind
	number uint32
	body   []byte
}

// Serve runs an agent until in ends, the lease expires, or ctx ends. When it returns, no process
// that it started is left. The error is nil if in or ctx ended.
func Serve(ctx context.Context, in io.Reader, out io.Writer, cfg Config) error {
	if cfg.Lease == 0 {
		cfg.Lease = 4 * time.Second
	}
	if cfg.Grace == 0 {
		cfg.Grace = 3 * time.Second
	}
	if cfg.Drain == 0 {
		cfg.Drain = 20 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.GPUs == nil {
		cfg.GPUs = gpus.Installed
	}
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
	frames, readErr := make(chan frame), make(chan error, 1)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			k, number, body, _, err := readFrame(in, nil)
			if err != nil {
				readErr <- err
				return
			}
			select {
			case frames <- frame{k, number, body}:
			case <-done:
				return
			}
		}
	}()

	lease := time.NewTimer(max(cfg.Lease, 0))
	defer lease.Stop()
	if cfg.Lease < 0 {
		lease.Stop()
	}
	heard, excused := time.Now(), false
	for {
		select {
		case f := <-frames:
			s.handle(ctx, f)
			heard, excused = time.Now(), false
			if cfg.Lease > 0 {
				lease.Reset(cfg.Lease)
			}
		case err := <-readErr:
			if errors.Is(err, io.EOF) {
				s.stop(cfg.Grace)
				return nil
			}
			s.stop(min(cfg.Grace, lateGrace)) // in may have a lease of its own
			return fmt.Errorf("launch: agent: read from the launcher: %w", err)
		case <-lease.C:
			// Late, it is this process that was stopped, or was writing: what the
			// launcher has sent waits to be read.
			if late := time.Since(heard) - cfg.Lease; late > PingInterval && !excused {
				excused = true
				lease.Reset(2 * PingInterval)
				continue
			}
			s.stop(min(cfg.Grace, lateGrace))
			return fmt.Errorf("launch: agent: the launcher has been silent for %s", cfg.Lease)
		case <-ctx.Done():
			s.drain(ctx, frames, readErr, lease)
			return nil
		}
	}
}

// drain ends all children by the end of Drain, as on a shutdown of this host. The launcher is told
// first: if it takes the notice, it lets them leave the job, and those that are left get SIGTERM
// when only Grace is left. Else they get SIGTERM at once.
func (s *server) drain(ctx context.Context, frames <-chan frame, readErr <-chan error, lease *time.Timer) {
	gone := make(chan struct{})
	go func() {
		s.out.sendJSON(kindLeaving, 0, Notice{Code: NoticeTerminated, Text: "its agent was told to end", Left: s.cfg.Drain})
		s.told.Wait()
		close(gone)
	}()
	begin, last := time.Now(), max(s.cfg.Drain-s.cfg.Grace, 0) // last: when they get SIGTERM at the latest
	limit, term := time.NewTimer(s.cfg.Drain), time.NewTimer(min(noteTime, last))
	defer limit.Stop()
	defer term.Stop()
	noted, asked := false, false
	ask := func() {
		if !asked { // a program may take a second SIGTERM for a wish to end at once
			asked = true
			s.signalAll(syscall.SIGTERM)
		}
	}
	for {
		select {
		case <-gone:
			s.await(s.cfg.Grace)
		case <-limit.C:
			s.await(0)
		case err := <-readErr:
			ask()
			if errors.Is(err, io.EOF) {
				s.await(s.cfg.Grace)
			} else {
				s.await(min(s.cfg.Grace, lateGrace))
			}
		case <-lease.C:
			ask()
			s.await(min(s.cfg.Grace, lateGrace))
		case <-term.C:
			ask()
			continue
		case f := <-frames:
			if s.cfg.Lease > 0 {
				lease.Reset(s.cfg.Lease)
			}
			switch {
			case f.kind == kindNoted && !noted:
				noted = true
				term.Reset(max(last-time.Since(begin), 0))
			case f.kind == kindStart:
				s.out.sendJSON(kindExit, f.number, exitBody{Code: 127, Err: "launch: agent: this agent is shutting down and starts no more processes"})
			default:
				s.handle(ctx, f)
			}
			continue
		}
		return
	}
}

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
		case <-timer.C: // it is stuck in the kernel (a hung disk); SIGKILL stays pending
		}
	}
	if s.cfg.Adopt {
		s.killDescendants(500 * time.Millisecond)
	}
}

func (s *server) signalAll(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.children {
		c.signal(sig)
	}
}
