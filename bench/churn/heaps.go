package main

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// heaps has the live heap of each process after its last collection, from the lines that the Go runtime writes.
type heaps struct {
	mu   sync.Mutex // guards live
	live map[string]int
}

// collection is a line of the Go runtime, behind the name of the process that launch puts before it.
var collection = regexp.MustCompile(`^(scheduler|(?:server|worker) \d+) *\| gc \d+ @.*: .* \d+->\d+->(\d+) MB`)

// read reads a line of launch.
func (h *heaps) read(line string) (taken bool) {
	if m := collection.FindStringSubmatch(line); m != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.live == nil {
			h.live = map[string]int{}
		}
		h.live[m[1]], _ = strconv.Atoi(m[2])
		return true
	}
	return strings.HasPrefix(line, "gc ") // of the launcher or its agent
}

// of is what was live on the heap of a process after its last collection, in MB; 0: not known.
func (h *heaps) of(name string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live[name]
}
