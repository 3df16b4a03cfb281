package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
)

// limitVariable tells a child how long it has.
const limitVariable = "GPUCHECK_LIMIT"

// testsFolder is that of the test programs, beside gpucheck.
const testsFolder = "gpucheck-tests"

// grace is how long a child may take after SIGQUIT to write its stacks, and how long processes that
// it leaves behind may hold its pipes.
const grace = 2 * time.Second

// runSection runs one section in its processes, one after the other, and takes their rows as they
// come.
func runSection(ctx context.Context, s settings, sec section, limit time.Duration, rep *report) {
	if sec.run != nil {
		s.itself(sec, limit).run(ctx, sec, limit, rep)
		return
	}
	end := time.Now().Add(limit)
	// What a test leaves of the time goes to the later ones.
	for i, name := range sec.tests {
		part := time.Until(end) / time.Duration(len(sec.tests)-i)
		s.test(name, sec, part).run(ctx, sec, part, rep)
	}
}

// A process is what a section runs in.
type process struct {
	path string
	args []string

	// env is one variable of the environment, with its value.
	env string
}

// itself is this program for a section.
func (s settings) itself(sec section, limit time.Duration) process {
	self := s.self
	if self == "" {
		// Without a path the start says what is wrong.
		self, _ = os.Executable()
	}
	return process{self, []string{"-section", sec.name, "-data", s.data, "-bin", s.bin, "-python", s.python, "-device", strconv.Itoa(s.device),
		"-epochs", strconv.Itoa(s.epochs), "-small=" + strconv.FormatBool(s.small)}, limitVariable + "=" + (limit - gputest.Margin(limit)).String()}
}

// test is a package's tests of a section.
func (s settings) test(name string, sec section, limit time.Duration) process {
	return process{filepath.Join(s.bin, testsFolder, name+".test"), []string{"-test.run", "^TestGPU" + strings.ToUpper(sec.name[:1]) + sec.name[1:] + "$",
		"-test.v=test2json", "-test.timeout", limit.String(), "-test.short=" + strconv.FormatBool(s.small)}, "PARAGON_TEST_GPU=" + strconv.Itoa(s.device)}
}

// run runs the process and takes its rows. How it ended is a row if that was not well.
func (p process) run(ctx context.Context, sec section, limit time.Duration, rep *report) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("its time limit of %s has passed", limit.Round(time.Second)))
	defer cancel()
	rest := &tailWriter{}
	out := &output{section: sec.name, add: rep.add, rest: rest, said: map[string]string{}}
	err := p.wait(ctx, out, rest)
	if e, is := errors.AsType[*exec.ExitError](err); err == nil || is && e.ExitCode() == 1 && out.fails > 0 {
		// Its rows say all.
		return
	}
	text := rest.String()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%s is not there: make gpucheck-build", p.path)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	detail := err.Error()
	if line := failure(text); line != "" {
		detail += ": " + line
	}
	rep.add(row{Section: sec.name, Name: "the section's process", Status: fail, Detail: detail})
	rep.Logs = append(rep.Logs, childLog{sec.name, err.Error(), text})
}

// wait runs the process until it ends or its time does.
func (p process) wait(ctx context.Context, out, rest io.Writer) error {
	cmd := exec.CommandContext(ctx, p.path, p.args...)
	cmd.Env = append(os.Environ(), p.env)
	cmd.SysProcAttr = childAttr()
	cmd.Stdout, cmd.Stderr = out, rest
	// One that hangs, perhaps within a library, says where; then it is killed, and so is whom
	// it started.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = grace
	if err := cmd.Start(); err != nil {
		return err
	}
	err := cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)

	// It ended well, but a child of it still holds its pipes.
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return err
}
