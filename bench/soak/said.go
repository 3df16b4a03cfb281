package main

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"time"
)

// said is what launch shows of the workers' own words, where they write no events.
type said struct {
	mu       sync.Mutex // guards the rest
	rest     []byte     // of a line
	steps    []event
	accuracy float64 // the last one told
}

// Write implements io.Writer.
func (s *said) Write(b []byte) (int, error) {
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

// progress returns the moments at which workers told of their training.
func (s *said) progress() []event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.steps)
}
