package run

import (
	"io"
	"log/slog"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/logline"
	"github.com/paragon-train/paragon/launch/internal/command"
)

// A statusLine writes lines to the launcher's standard error. On a terminal it keeps one line below
// them that says what launch waits for.
type statusLine struct {
	// w gets the lines, and the text below them.
	w io.Writer

	// terminal is how wide the terminal is now, since windows change; ok is false where there is
	// none.
	terminal func() (columns int, ok bool)

	// mu guards text, and the order of writes.
	mu sync.Mutex

	text string
}

// clearLine goes to the beginning of a terminal's line, and empties it.
const clearLine = "\r\x1b[K"

// newStatusLine makes one that writes to w, which stands for the given standard error.
func newStatusLine(w, stderr io.Writer) *statusLine {
	return &statusLine{w: w, terminal: func() (int, bool) {
		if !command.IsTerminal(stderr) {
			return 0, false
		}
		columns, _, err := term.GetSize(int(command.FileOf(stderr).Fd()))
		if columns == 0 {
			// Some terminals do not say how wide they are.
			columns = 80
		}
		return columns, err == nil
	}}
}

// Write implements io.Writer for whole lines.
func (s *statusLine) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text == "" {
		return s.w.Write(p)
	}
	_, err := io.WriteString(s.w, clearLine+string(p)+s.text)
	return len(p), err
}

// show replaces the line; an empty text removes it.
func (s *statusLine) show(text string, columns int) {
	if r := []rune(text); len(r) >= columns {
		// A line that wraps could not be cleared.
		text = string(r[:max(columns-1, 0)])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text == text {
		return
	}
	s.text = text
	io.WriteString(s.w, clearLine+text)
}

// progress shows texts in the line, or as lines of the log where there is no terminal.
func (s *statusLine) progress(format joblog.Format, log *slog.Logger) func(text string) {
	return func(text string) {
		if columns, ok := s.terminal(); ok && format != joblog.JSON {
			s.show(strings.ReplaceAll(logline.Visible(text), "\n", " "), columns)
		} else if text != "" {
			log.Info(text)
		}
	}
}
