// Package carry runs a command of a trial that keeps its state in a folder, on a host that does not
// have the search's files.
//
// Its process joins the trial, fills a temporary folder with the checkpoint to go on from, and
// starts the command. What the command prints is passed on, a line with metrics once what is new in
// the folder has been copied to the search. So the search has the state of a step before its
// report.
//
// In a job each worker's command is run so. The workers on a host share the folder, which the first
// of them makes. The search has rank 0's, and with each step what is new in those of the other
// hosts.
package carry

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/files/scratch"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/tune/internal/checkpoints"
	"github.com/paragon-train/paragon/tune/internal/remote"
	"github.com/paragon-train/paragon/tune/internal/state"
)

// maxLine bounds a line with metrics, in bytes.
const maxLine = 64 << 10

// Run runs the command with the folder in place of remote.CommandFolder in its words, and returns
// its exit code as a shell does. Whoever ends ctx ends the command, too, by a signal to the group
// of processes.
func Run(ctx context.Context, command []string, stdout, stderr io.Writer) (code int, err error) {
	if len(command) == 0 {
		return 1, errors.New("tune: carry: got no command")
	}
	search, found, err := remote.Dial(ctx, os.LookupEnv)
	if err != nil {
		return 1, err
	}
	if !found {
		return 1, fmt.Errorf("tune: carry: %s is not set: only launch tune starts commands in this way", remote.AddressVariable)
	}
	c := &carrier{search: search}
	remove, err := c.open(ctx)
	defer func() { err = errors.Join(err, remove()) }()
	if err != nil {
		return 1, err
	}
	words := make([]string, len(command))
	for i, w := range command {
		words[i] = strings.ReplaceAll(w, remote.CommandFolder, c.dir)
	}
	over := c.share(ctx, stderr)
	code, err = c.run(ctx, words, stdout, stderr)
	well := code == 0 && err == nil
	over(well)
	if task, rank := c.search.Task(), c.search.Rank(); well && rank == task.Leader(rank) && task.Workers > 1 {
		// The others use the folder until they have ended.
		if err = c.search.Others(ctx); ctx.Err() != nil {
			err = nil
		}
	}
	closing := context.WithoutCancel(ctx)
	if ctx.Err() == nil {
		err = errors.Join(err, search.Done(closing, remote.Done{}))
	}
	return code, err
}

// A carrier copies the folder of one command.
type carrier struct {
	search *remote.Client
	dir    string
	// first lists what the folder had when the command began.
	first string
	// seen is what the folder had when it was last saved.
	seen string
}

// open finds or makes the folder. What was made for it is to be removed, also after an error.
func (c *carrier) open(ctx context.Context) (remove func() error, err error) {
	task := c.search.Task()
	if c.search.Rank() != task.Leader(c.search.Rank()) {
		c.dir, err = c.search.Await(ctx)
		return func() error { return nil }, err
	}
	temp, err := scratch.New("checkpoint")
	if err != nil {
		return func() error { return nil }, fmt.Errorf("tune: carry: %w", err)
	}
	c.dir = filepath.Join(temp.Path, "checkpoint")
	if strings.Contains(c.dir, "'") {
		return temp.Remove, fmt.Errorf("tune: carry: the temporary folder is %s, want one without a quote: set TMPDIR", c.dir)
	}
	if err := c.restore(ctx); err != nil {
		return temp.Remove, fmt.Errorf("tune: carry: %w", err)
	}
	if task.Workers > 1 {
		err = c.search.Ready(ctx, c.dir)
	}
	return temp.Remove, err
}

// restore makes the folder, with the files of the checkpoint to go on from.
func (c *carrier) restore(ctx context.Context) error {
	if err := os.Mkdir(c.dir, 0o777); err != nil {
		return err
	}
	if c.search.Task().Restore != nil {
		from, remove, err := c.search.Restore(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(state.Copy(c.dir, from), remove()); err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(c.dir, checkpoints.SumsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	var err error
	c.first, err = state.List(c.dir)
	c.seen = c.first
	return err
}

// share copies what the command writes to the search, as parts of the checkpoints that rank 0
// saves, where this is the first rank on another host. over ends that: at once, or, where the
// command has ended well, when rank 0 has ended, which may save what the command has written.
func (c *carrier) share(ctx context.Context, stderr io.Writer) (over func(well bool)) {
	task, rank := c.search.Task(), c.search.Rank()
	if task.PerHost == 0 || rank == 0 || rank != task.Leader(rank) {
		return func(bool) {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := c.search.Parts(ctx, func(dir string) error { return state.CopySince(dir, c.dir, c.first) })
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(stderr, "checkpoints can no longer be saved: %v\n", err)
		}
	}()
	return func(well bool) {
		if !well {
			cancel()
		}
		<-ended
		cancel()
	}
}

// save copies what is new in the folder to the search, as the state after a step.
func (c *carrier) save(ctx context.Context, step int) error {
	if c.search.Rank() != 0 {
		return nil
	}
	has, err := state.List(c.dir)
	if err != nil || has == "" || has == c.seen {
		return err
	}
	write := func(dir string) error { return state.Copy(dir, c.dir) }
	// A file that is here as it was may have been written anew on another host.
	if c.search.Task().PerHost > 0 {
		write = func(dir string) error {
			return errors.Join(state.CopySince(dir, c.dir, c.first), state.CopySame(filepath.Join(dir, remote.UnchangedFolder), c.dir, c.first))
		}
	}
	if err := c.search.Checkpoint(ctx, step, func(dir string) error { return state.Whole(dir, func() error { return write(dir) }) }); err != nil {
		return err
	}
	c.seen = has
	return nil
}

// run runs the command to its end.
func (c *carrier) run(ctx context.Context, words []string, stdout, stderr io.Writer) (code int, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 1, fmt.Errorf("tune: carry: %w", err)
	}
	defer r.Close()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = w, stderr, drainTimeout
	err = cmd.Start()
	w.Close()
	if err != nil {
		return 127, fmt.Errorf("tune: carry: start %s: %w", words[0], err)
	}
	passed := make(chan error, 1)
	go func() { passed <- c.pass(ctx, &output{r: r}, stdout, stderr) }()
	err = cmd.Wait()
	// Reading ends at once: a child of the command may hold the other end.
	_ = r.SetReadDeadline(time.Unix(1, 0))
	if passing := <-passed; passing != nil {
		return 1, fmt.Errorf("tune: carry: pass on the output of %s: %w", words[0], passing)
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	if code = cmd.ProcessState.ExitCode(); code == 0 && err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return 1, err
	}
	return code, nil
}

// pass passes lines on.
func (c *carrier) pass(ctx context.Context, from io.Reader, stdout, stderr io.Writer) error {
	// within says that the rest of a long line follows.
	in, within := bufio.NewReaderSize(from, maxLine), false
	for {
		line, err := in.ReadSlice('\n')
		whole := !within && !errors.Is(err, bufio.ErrBufferFull)
		within = errors.Is(err, bufio.ErrBufferFull)
		text := bytes.TrimRight(line, "\r\n")
		// A carriage return takes back what stands before it.
		text = text[bytes.LastIndexByte(text, '\r')+1:]
		if m, ok := control.ParseMetrics(string(text)); ok && whole {
			if err := c.save(ctx, m.Step); err != nil && ctx.Err() == nil {
				fmt.Fprintf(stderr, "the checkpoint of step %d could not be saved: %v\n", m.Step, err)
			}
		}
		if _, err := stdout.Write(line); err != nil {
			return err
		}
		switch {
		case err == nil, within:
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}

// drainTimeout is how long the output of a command that has ended is waited for.
const drainTimeout = 100 * time.Millisecond

// maxDrained bounds, in bytes, what is read of a pipe whose command has ended: a child may write to
// it for ever.
const maxDrained = 1 << 20

// An output is a pipe whose command has ended once its deadline is over. What the command has
// printed by then is read.
type output struct {
	r *os.File
	// drained is how many bytes were read since the deadline was over.
	drained int
}

func (o *output) Read(p []byte) (int, error) {
	n, err := o.r.Read(p)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	_ = o.r.SetReadDeadline(time.Now().Add(drainTimeout))
	n, err = o.r.Read(p)
	_ = o.r.SetReadDeadline(time.Unix(1, 0))
	if o.drained += n; errors.Is(err, os.ErrDeadlineExceeded) || o.drained > maxDrained {
		err = io.EOF
	}
	return n, err
}
