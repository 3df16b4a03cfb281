package run

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// On a terminal the line stays below what is written meanwhile, and no longer than the terminal is
// wide. Elsewhere, and in a JSON log, each text is a line of the log.
func TestStatusLine(t *testing.T) {
	const clear = "\r\x1b[K"
	for _, tc := range []struct {
		terminal bool
		format   joblog.Format
		want     string
	}{
		{true, joblog.Text, clear + "1 of 3" + clear + "a log line\n1 of 3" + clear + "0123456789012345678" + clear + "another\n"},
		{false, joblog.Text, "1 of 3|a log line\n01234567890123456789x|another\n"},
		{true, joblog.JSON, "1 of 3|a log line\n01234567890123456789x|another\n"},
	} {
		var out bytes.Buffer
		s := &statusLine{w: &out, terminal: func() (int, bool) { return 20, tc.terminal }}
		show := s.progress(tc.format, slog.New(&textHandler{w: &out}))
		show("1 of 3")
		s.Write([]byte("a log line\n"))
		show("01234567890123456789x")
		show("")
		s.Write([]byte("another\n"))
		if got := out.String(); got != tc.want {
			t.Errorf("terminal %t, format %s: got %q, want %q", tc.terminal, tc.format, got, tc.want)
		}
	}
}

// What is waited for may have text of hosts and commands in it.
func TestStatusLineIsOneLineOfText(t *testing.T) {
	var out bytes.Buffer
	s := &statusLine{w: &out, terminal: func() (int, bool) { return 80, true }}
	s.progress(joblog.Text, slog.New(slog.DiscardHandler))("d1 (\x1b[2J\r\n)")
	if got, want := out.String(), clearLine+`d1 (\x1b[2J\r )`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A textHandler writes the text of records, and | after each.
type textHandler struct {
	slog.Handler
	w *bytes.Buffer
}

func (h *textHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	h.w.WriteString(r.Message + "|")
	return nil
}
