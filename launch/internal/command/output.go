package command

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// An Output is launch's standard output. It remembers the first write that failed: a command whose
// output was lost does not end with 0.
//
// Several goroutines may write to it at once if they may write to what it wraps.
type Output struct {
	w      io.Writer
	stderr io.Writer

	// mu guards err.
	mu  sync.Mutex
	err error
}

// NewOutput makes the standard output of a command that says on stderr if a write to w fails.
func NewOutput(w, stderr io.Writer) *Output {
	return &Output{w: w, stderr: stderr}
}

// Write implements io.Writer. The first error is said at once, and not only when the command ends:
// a job may go on for days.
func (o *Output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
			fmt.Fprintf(o.stderr, "launch: write standard output: %v; the output is incomplete\n", err)
		}
	}
	return n, err
}

// Code is the exit code of a command that would end with the given one.
func (o *Output) Code(code int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if code == 0 && o.err != nil {
		return 1
	}
	return code
}

// FileOf is the file that w writes to; nil: it is none.
func FileOf(w io.Writer) *os.File {
	switch w := w.(type) {
	case *os.File:
		return w
	case *Output:
		return FileOf(w.w)
	}
	return nil
}

// IsTerminal reports whether w is a terminal on which colours and moving text are wanted.
func IsTerminal(w io.Writer) bool {
	f := FileOf(w)
	return f != nil && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
