package main

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// A standardOutput is launch's. It remembers the first write that failed: a command whose output
// was lost does not end with 0.
type standardOutput struct {
	w      io.Writer
	stderr io.Writer

	mu  sync.Mutex // guards err
	err error
}

func (o *standardOutput) Write(p []byte) (int, error) {
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

// code is the exit code of a command that would end with the given one.
func (o *standardOutput) code(code int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if code == 0 && o.err != nil {
		return 1
	}
	return code
}

// fileOf is the file that w writes to; nil: it is none.
func fileOf(w io.Writer) *os.File {
	switch w := w.(type) {
	case *os.File:
		return w
	case *standardOutput:
		return fileOf(w.w)
	}
	return nil
}
