package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// progress is that of workers which write no events, from the lines that launch writes.
type progress struct {
	// mu guards the rest.
	mu sync.Mutex

	told []event

	// accuracy is the last one told.
	accuracy float64
}

// read reads a line of launch.
func (p *progress) read(line string) (taken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, text, ok := strings.Cut(line, "Test_acc "); ok {
		_, _ = fmt.Sscan(text, &p.accuracy)
	}
	if strings.Contains(line, "Epoch ") {
		p.told = append(p.told, event{At: time.Now()})
	}
	return false
}

// steps returns the times at which workers printed progress.
func (p *progress) steps() []event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.told)
}
