package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
)

// What lines of package testing begin with, under -test.v=test2json.
const (
	mark      = "\x16"
	attribute = "=== ATTR  "
)

// place is where a test says something.
var place = regexp.MustCompile(`^\w+\.go:\d+: `)

// An output takes rows out of what a section's process writes: those that tests report, and one for
// each test that fails or is skipped and says why.
type output struct {
	section string
	add     func(row)

	// rest takes what is no row.
	rest *tailWriter

	// begun is the beginning of a line whose end is still to come.
	begun []byte

	// test is the test whose text comes, and said what each has written.
	test string
	said map[string]string

	// fails counts the rows that are FAIL.
	fails int
}

func (o *output) Write(p []byte) (int, error) {
	o.begun = append(o.begun, p...)
	for {
		line, more, found := bytes.Cut(o.begun, []byte("\n"))
		if !found {
			return len(p), nil
		}
		o.line(string(line))
		o.begun = more
	}
}

// line takes a whole line: it is a row, the start or the end of a test, or some text.
func (o *output) line(line string) {
	before, event, marked := strings.Cut(line, mark)
	if !marked || !o.event(event) {
		fmt.Fprintln(o.rest, before+event)
	}
	if !marked && strings.HasPrefix(line, "    ") {
		text := place.ReplaceAllString(strings.TrimSpace(line), "")
		o.said[o.test] = strings.TrimPrefix(o.said[o.test]+"\n"+text, "\n")
	}
}

// event says whether a line of package testing was a row.
func (o *output) event(line string) bool {
	what, rest, _ := strings.Cut(line, " ")
	switch rest = strings.TrimSpace(rest); {
	case strings.HasPrefix(line, attribute):
		_, attribute, _ := strings.Cut(strings.TrimPrefix(line, attribute), " ")
		key, text, _ := strings.Cut(attribute, " ")
		if key != gputest.Key {
			return false
		}
		var r row
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			r = row{Name: "row", Status: fail, Detail: fmt.Sprintf("%v: %q", err, text)}
		}
		o.row(r)
		return true

	// Another test writes from here on.
	case what == "===":
		_, o.test, _ = strings.Cut(rest, " ")
		o.test = strings.TrimSpace(o.test)
	case what == "---":
		how, name, _ := strings.Cut(rest, " ")
		name, _, _ = strings.Cut(name, " ")
		r := row{Name: name, Status: fail, Detail: o.said[name]}
		if how == "SKIP:" {
			r.Status = skip
		}
		if delete(o.said, name); how != "PASS:" && r.Detail != "" {
			_, inside, isPart := strings.Cut(name, "/")
			if r.Name = "the whole section"; isPart {
				r.Name = strings.ReplaceAll(inside, "_", " ")
			}
			o.row(r)
		}
	}
	return false
}

func (o *output) row(r row) {
	if r.Section = o.section; r.Status == fail {
		o.fails++
	}
	o.add(r)
}

// failure is the line of a program's text that says why it ended: the first of a crash's, else the
// last.
func failure(text string) string {
	for line := range strings.Lines(text) {
		for _, begin := range []string{"panic: ", "fatal error: ", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGQUIT"} {
			if strings.HasPrefix(line, begin) {
				return strings.TrimSpace(line)
			}
		}
	}
	return lastLine(text)
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// A tailWriter keeps the beginning and the end of what is written to it.
type tailWriter struct {
	mu sync.Mutex

	// mu guards head and tail, and lost, the number of bytes between them.
	head, tail []byte
	lost       int
}

// Write keeps the first 32 KiB and the last.
func (t *tailWriter) Write(p []byte) (int, error) {
	const room = 32 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(p), room-len(t.head))
	t.head = append(t.head, p[:n]...)
	t.tail = append(t.tail, p[n:]...)
	if over := len(t.tail) - room; over > room {
		t.lost += over
		t.tail = append([]byte(nil), t.tail[over:]...)
	}
	return len(p), nil
}

func (t *tailWriter) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost > 0 {
		return fmt.Sprintf("%s\n... %d bytes ...\n%s", t.head, t.lost, t.tail)
	}
	return string(t.head) + string(t.tail)
}
