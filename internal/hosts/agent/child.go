//go:build unix

package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/affinity"
	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
)

// drainTime and drainBytes bound how long output is read after a process and its group are gone: a
// descendant outside the group may hold the pipe, or write to it, for ever.
const (
	drainTime  = 500 * time.Millisecond
	drainBytes = 1 << 20
)

// start starts a child, and the goroutines that copy its output and wait for its end.
func (s *server) start(number uint32, spec process.Spec) error {
	cmd, err := s.command(spec)
	if err != nil {
		return err
	}
	p, err := openPipes(spec.Report)
	if err != nil {
		return fmt.Errorf("launch: start %s: %w", spec.Name, err)
	}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = p.theirs[0], p.theirs[1], p.theirs[2:]
	if spec.Report {
		cmd.Env = append(cmd.Env, process.ReportEnv+"=3")
	}
	report := s.exitReport(number)
	cmd.Env = append(cmd.Env, exitreport.Variable+"="+report)
	c := &child{cmd: cmd, started: time.Now(), killed: make(chan struct{})}
	if err := s.fork(number, c, firstCPUs(spec.CPUs)); err != nil {
		p.closeTheirs()
		p.closeOurs()
		return fmt.Errorf("launch: start %s: %w", spec.Name, err)
	}
	p.closeTheirs()
	s.out.sendJSON(kindStarted, number, startedBody{PID: cmd.Process.Pid})
	drained := s.copyOutputs(number, p)
	go func() {
		defer s.told.Done()
		s.out.sendJSON(kindExit, number, s.reap(number, c, p, report, drained))
	}()
	return nil
}

// fork starts the child's process on some processors, and counts it as one of ours.
func (s *server) fork(number uint32, c *child, cpus []int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.children[number] != nil {
		return fmt.Errorf("number %d is in use", number)
	}
	if err := affinity.Start(cpus, c.cmd.Start); err != nil {
		return err
	}
	s.children[number] = c
	s.running.Add(1)
	s.told.Add(1)
	return nil
}

// copyOutputs sends on what the child writes. The channel is closed when all of it has been sent.
func (s *server) copyOutputs(number uint32, p *childPipes) (drained <-chan struct{}) {
	var readers sync.WaitGroup
	for k, r := range p.ours {
		readers.Go(func() { s.copyOutput(k, number, r) })
	}
	done := make(chan struct{})
	go func() { readers.Wait(); close(done) }()
	return done
}

// reap waits for the child's end and then, for a while, for the rest of its output.
func (s *server) reap(number uint32, c *child, p *childPipes, report string, drained <-chan struct{}) exitBody {
	body := c.wait(drained)
	if report != "" {
		body.Report = exitreport.Take(report)
	}
	s.mu.Lock()
	delete(s.children, number)
	s.mu.Unlock()
	s.running.Done()
	for _, r := range p.ours {
		r.SetReadDeadline(time.Now().Add(drainTime))
	}
	<-drained
	return body
}

// childPipes are a child's standard output, standard error and, perhaps, its report.
type childPipes struct {
	// ours are the ends that are read here, and theirs those that the child writes to, in the
	// order of its files.
	ours   map[kind]*os.File
	theirs []*os.File
}

// openPipes makes the pipes of a child: those of its outputs and, with report, the one on which it
// reports to the launcher.
func openPipes(report bool) (*childPipes, error) {
	p := &childPipes{ours: map[kind]*os.File{}}
	for _, k := range []kind{kindStdout, kindStderr, kindReport} {
		if k == kindReport && !report {
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			p.closeTheirs()
			p.closeOurs()
			return nil, err
		}
		p.ours[k], p.theirs = r, append(p.theirs, w)
	}
	return p, nil
}

func (p *childPipes) closeTheirs() {
	for _, f := range p.theirs {
		f.Close()
	}
}

func (p *childPipes) closeOurs() {
	for _, f := range p.ours {
		f.Close()
	}
}

func (s *server) copyOutput(k kind, number uint32, r *os.File) {
	defer r.Close()
	buf := make([]byte, 32<<10)
	left, late := drainBytes, false
	for left > 0 {
		n, err := r.Read(buf)

		// A broken connection ends the agent elsewhere. Reading on keeps the process from
		// blocking.
		if n > 0 {
			s.out.send(k, number, buf[:n])
		}
		switch {
		case err == nil && !late:
		case err == nil:
			left -= n
			r.SetReadDeadline(time.Now().Add(drainTime))
		case errors.Is(err, os.ErrDeadlineExceeded) && !late:
			// The time may have passed in send, with output still in the pipe.
			late = true
			r.SetReadDeadline(time.Now().Add(drainTime / 5))
		default:
			return
		}
	}
}

// wait returns once the process has ended and its group is gone. A process that was asked to end
// may leave members of its group running (a shell or `go run` dies of a SIGTERM on which the
// program below it writes a checkpoint). Members that hold the output open may run until they are
// done or get SIGKILL. Otherwise the group is killed when the process ends.
func (c *child) wait(drained <-chan struct{}) exitBody {
	pid := c.cmd.Process.Pid

	// Until it is reaped, the IDs of the process and its group cannot be in use again.
	awaitExit(pid)
	elapsed := time.Since(c.started)
	c.mu.Lock()
	stopping := c.stopping
	c.mu.Unlock()
	if stopping {
		select {
		case <-drained:
		case <-c.killed:
		}
	}
	syscall.Kill(-pid, syscall.SIGKILL)
	c.mu.Lock()
	c.reaped = true
	err := c.cmd.Wait()
	c.mu.Unlock()

	body := exitBody{Elapsed: elapsed}
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		body.Signal = int(status.Signal())
	case c.cmd.ProcessState != nil:
		body.Code = c.cmd.ProcessState.ExitCode()
	default:
		body.Code, body.Err = 255, err.Error()
	}
	return body
}

// signal sends sig to the process and its group.
func (c *child) signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return
	}
	switch sig {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
		c.stopping = true
	case syscall.SIGKILL:
		if c.stopping {
			select {
			case <-c.killed:
			default:
				close(c.killed)
			}
		}
		c.stopping = false
	}
	syscall.Kill(-c.cmd.Process.Pid, sig)
}

func (s *server) command(spec process.Spec) (*exec.Cmd, error) {
	if spec.Dir != "" {
		switch info, err := os.Stat(spec.Dir); {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("launch: start %s: there is no directory %s here; make it, or copy it (over ssh: --sync-dst-dir; in study.yaml: folder)", spec.Name, spec.Dir)
		case err != nil:
			return nil, fmt.Errorf("launch: start %s: %w", spec.Name, err)
		case !info.IsDir():
			return nil, fmt.Errorf("launch: start %s: %s is not a directory", spec.Name, spec.Dir)
		}
	}
	cores := runtime.GOMAXPROCS(0)
	if cpus := firstCPUs(spec.CPUs); len(cpus) > 0 {
		cores = min(cores, len(cpus))
	}
	env := withShare(append(withoutRank(os.Environ()), spec.Env...), spec.Sharers, cores)
	if spec.GPUs != nil {
		visible, err := spec.GPUs.Variable(s.cfg.GPUs)
		if err != nil {
			return nil, fmt.Errorf("launch: start %s: GPUs: %w", spec.Name, err)
		}
		env = append(env, visible)
	}
	var path string
	args := spec.Command
	if spec.Self {
		path, args = s.cfg.Executable, append([]string{s.cfg.Executable}, args...)
	} else {
		if len(args) == 0 {
			return nil, fmt.Errorf("launch: start %s: no command", spec.Name)
		}
		var err error
		if path, err = lookPath(args[0], spec.Dir, env); err != nil {
			return nil, fmt.Errorf("launch: start %s: %w", spec.Name, err)
		}
	}
	cmd := &exec.Cmd{Path: path, Args: args, Dir: spec.Dir, Env: env, SysProcAttr: childAttr()}
	return cmd, nil
}

// firstCPUs are the first so many of this machine's processors, or all if there are fewer; none
// where n sets no limit.
func firstCPUs(n int) []int {
	if n <= 0 {
		return nil
	}
	own := affinity.Own()
	return own[:min(n, len(own))]
}

// withShare sets GOMAXPROCS to a process's share of the cores, so that threads of one worker that
// only move gradients do not preempt another worker's computing threads, which would cost two
// context switches each time.
func withShare(env []string, sharers, cores int) []string {
	set := func(v string) bool { return strings.HasPrefix(v, "GOMAXPROCS=") }
	if sharers < 2 || slices.ContainsFunc(env, set) {
		return env
	}
	return append(env, "GOMAXPROCS="+strconv.Itoa(max(1, cores/sharers)))
}

// lookPath finds a program as a shell in dir with that environment would.
func lookPath(name, dir string, env []string) (string, error) {
	runnable := func(path string) error {
		full := path
		if !filepath.IsAbs(full) {
			full = filepath.Join(dir, full)
		}
		info, err := os.Stat(full)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if abs, err := filepath.Abs(full); err == nil {
				full = abs
			}
			return fmt.Errorf("there is no program %s here; build it, or copy it (over ssh: --sync-dst-dir; in study.yaml: folder)", full)
		case err != nil:
			return err
		case info.IsDir():
			return fmt.Errorf("%s is a directory", full)
		case info.Mode()&0o111 == 0:
			return fmt.Errorf("%s is not executable; chmod +x it", full)
		}
		return nil
	}
	if strings.Contains(name, "/") {
		return name, runnable(name)
	}
	var path string
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	for _, d := range filepath.SplitList(path) {
		if d == "" {
			d = "."
		}
		if full := filepath.Join(d, name); runnable(full) == nil {
			if !filepath.IsAbs(full) {
				full = "./" + full
			}
			return full, nil
		}
	}
	return "", fmt.Errorf("program %q is not in PATH=%s; name it with its folder, or pass a PATH with --env", name, path)
}
