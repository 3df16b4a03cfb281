package trialjob

import "strings"

// A tail keeps the last part of what is written to it.
type tail struct{ b []byte }

// Write keeps the newest tailBytes, and never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - tailBytes; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

// String is what was kept.
func (t *tail) String() string { return string(t.b) }

// lines are the lines of the tail, without their ends.
func (t *tail) lines(each func(string)) {
	for line := range strings.Lines(t.String()) {
		each(strings.TrimSuffix(line, "\n"))
	}
}
