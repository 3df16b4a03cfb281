package launched

import (
	"bytes"
	"strings"
	"sync"
)

// An output is what launch writes, line by line.
type output struct {
	each func(line string) (taken bool)

	// mu guards the rest, and calls of each.
	mu sync.Mutex
	// rest is the beginning of a line whose end has not come.
	rest []byte
	// last are the last lines, for errors.
	last []string
}

// lastLines is how many lines an error shows.
const lastLines = 30

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rest = append(o.rest, b...)
	for {
		line, rest, whole := bytes.Cut(o.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		text := string(line)
		o.rest = rest
		if o.each != nil && o.each(text) {
			continue
		}
		if o.last = append(o.last, text); len(o.last) > lastLines {
			o.last = o.last[1:]
		}
	}
}

func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.last, "\n")
}
