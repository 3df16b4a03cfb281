package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// Columns of a line, and how wide it may be where there is no terminal.
const (
	sectionWidth = 10
	nameWidth    = 48
	valueWidth   = 28
	detailWidth  = 160
)

// width is that of the terminal that w is, or 0.
func width(w io.Writer) int {
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return max(columns, 40)
}

func (r *report) head() {
	fmt.Fprintln(r.out, strings.TrimRight(r.line("", "section", "check", "value (bound)", ""), " "))
}

func (r *report) print(w row) {
	fmt.Fprintln(r.out, strings.TrimRight(r.line(string(w.Status), w.Section, w.Name, valueOf(w), firstLine(w.Detail)), " "))
}

// line is one line where there is no terminal, or where it fits. On a terminal that is too narrow
// what is said besides comes below.
func (r *report) line(status, section, name, value, detail string) string {
	text := fmt.Sprintf("%-4s  %-*s  %-*s  %-*s  %s", status, sectionWidth, section, nameWidth, name, valueWidth, value, detail)
	if r.width == 0 || utf8.RuneCountInString(strings.TrimRight(text, " ")) < r.width {
		return text
	}
	const indent = 6
	text = cut(fmt.Sprintf("%-4s  %-*s  %-*s  %s", status, sectionWidth, section, min(nameWidth, max(10, r.width-indent-sectionWidth-valueWidth-5)), name, value), r.width-1)
	for detail != "" {
		part := cut(detail, r.width-indent-1)
		if at := strings.LastIndexByte(part, ' '); len(part) < len(detail) && at > len(part)/2 {
			part = part[:at]
		}
		text = strings.TrimRight(text, " ") + "\n" + strings.Repeat(" ", indent) + part
		detail = strings.TrimLeft(detail[len(part):], " ")
	}
	return text
}

// cut is at most n characters of a text.
func cut(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}

// valueOf is the number of a row with its bound.
func valueOf(r row) string {
	value := ""
	if r.Unit != "" {
		value = number(r.Value) + " " + r.Unit
	}
	if r.Bound != 0 {
		value += " (" + number(r.Bound) + ")"
	}
	return value
}

// number writes a value with four digits that count.
func number(v float64) string {
	if v >= 1e4 && v < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// firstLine is text up to the first line's end, and not too much of it: the report has all. An
// error says at its end what it comes from.
func firstLine(s string) string {
	const tail = 60
	first, _, more := strings.Cut(s, "\n")
	if r := []rune(first); len(r) > detailWidth {
		first = string(r[:detailWidth-tail-5]) + " ... " + string(r[len(r)-tail:])
	}
	if more {
		first += " ..."
	}
	return first
}

// A screen prints lines. If it takes no lines, such as a full pipe that is not read, the checks go
// on: lines are dropped, and the report has them.
type screen struct {
	lines chan []byte
	done  chan struct{}
}

// newScreen starts the goroutine that writes: a terminal that does not take text must not hold up a
// check.
func newScreen(w io.Writer) *screen {
	s := &screen{make(chan []byte, 4096), make(chan struct{})}
	go func() {
		defer close(s.done)
		for line := range s.lines {
			// There is nowhere to show an error.
			w.Write(line)
		}
	}()
	return s
}

func (s *screen) Write(p []byte) (int, error) {
	select {
	case s.lines <- append([]byte(nil), p...):
	default:
	}
	return len(p), nil
}

// close waits until all is printed, but not for long.
func (s *screen) close() {
	close(s.lines)
	select {
	case <-s.done:
	case <-time.After(grace):
	}
}
