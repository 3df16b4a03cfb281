package main

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A jobOutput reads launch's output for the progress of workers that write no events.
type jobOutput struct {
	mu       sync.Mutex // guards the rest
	rest     []byte     // of a line
	steps    []event
	accuracy float64 // the last one told
}

// Write implements io.Writer.
func (s *jobOutput) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, b...)
	for {
		line, rest, whole := bytes.Cut(s.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		s.rest = rest
		if i := bytes.Index(line, []byte("Test_acc ")); i >= 0 {
			_, _ = fmt.Sscan(string(line[i+len("Test_acc "):]), &s.accuracy)
		}
		if bytes.Contains(line, []byte("Epoch ")) {
			s.steps = append(s.steps, event{At: time.Now()})
		}
	}
}

// progress returns the times at which workers printed progress.
func (s *jobOutput) progress() []event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.steps)
}
