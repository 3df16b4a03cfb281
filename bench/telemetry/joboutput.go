package main

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
)

// A jobOutput reads launch's output.
type jobOutput struct {
	mu   sync.Mutex // guards the rest
	rest []byte     // of a line
	last []string   // lines, for errors
	url  string     // of the metrics
}

// lastLines is how many lines an error shows.
const lastLines = 30

var metricsLine = regexp.MustCompile(`metrics for Prometheus: (http://\S+/metrics)`)

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
		if m := metricsLine.FindSubmatch(line); m != nil {
			s.url = string(m[1])
		}
		if s.last = append(s.last, string(line)); len(s.last) > lastLines {
			s.last = s.last[1:]
		}
		s.rest = rest
	}
}

// metrics is the address of the metrics; empty: launch has not said it.
func (s *jobOutput) metrics() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url
}

func (s *jobOutput) tail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.last, "\n")
}
