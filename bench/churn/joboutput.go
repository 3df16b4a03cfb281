package main

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// A jobOutput reads launch's output, and finds the live heap of each process after its last collection.
type jobOutput struct {
	mu   sync.Mutex // guards the rest
	rest []byte     // of a line
	last []string   // lines, for errors
	live map[string]int
}

// lastLines is how many lines an error shows.
const lastLines = 30

// collection is a line of the Go runtime, behind the name of the process that launch puts before it.
var collection = regexp.MustCompile(`^(scheduler|(?:server|worker) \d+) *\| gc \d+ @.*: .* \d+->\d+->(\d+) MB`)

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
		s.line(string(line))
		s.rest = rest
	}
}

func (s *jobOutput) line(line string) {
	if m := collection.FindStringSubmatch(line); m != nil {
		if s.live == nil {
			s.live = map[string]int{}
		}
		s.live[m[1]], _ = strconv.Atoi(m[2])
		return
	}
	if strings.HasPrefix(line, "gc ") { // of the launcher or its agent
		return
	}
	if s.last = append(s.last, line); len(s.last) > lastLines {
		s.last = s.last[1:]
	}
}

// heap is what was live on the heap of a process after its last collection, in MB; 0: not known.
func (s *jobOutput) heap(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[name]
}

func (s *jobOutput) tail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.last, "\n")
}
