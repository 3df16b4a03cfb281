// Package logline writes log records as the lines that users of the tutorial's launcher know:
//
//	2018-06-03 05:30:05,609 INFO rsync /home/ubuntu/cifar10_dist/ -> a1:/home/ubuntu/cifar10_dist
//
// Attributes follow the message as key=value. Some may be left out, as those of events (package
// joblog), which are for programs. Control characters are written as Go's escapes: hosts and
// commands may print anything, and a log is read on a terminal.
package logline

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// TimeFormat is the one of Python's logging, which the tutorial's launcher uses.
const TimeFormat = "2006-01-02 15:04:05,000"

// A Handler is a slog.Handler.
type Handler struct {
	// mu guards out. Handlers that were made of one another share it.
	mu *sync.Mutex

	out   io.Writer
	level slog.Leveler

	// prefix stands before the names of attributes: the groups that are open.
	prefix string

	// attrs is what With has added, as it is written.
	attrs string

	skip func(slog.Attr) bool
}

// New makes a Handler that writes records of at least level to out; each is one Write. Attributes
// of records for which skip is true are left out; nil: none.
func New(out io.Writer, level slog.Leveler, skip func(slog.Attr) bool) *Handler {
	return &Handler{mu: new(sync.Mutex), out: out, level: level, skip: skip}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// Handle implements slog.Handler.
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Time.Format(TimeFormat))
	b.WriteByte(' ')
	name := r.Level.String()
	if r.Level == slog.LevelWarn {
		// Python writes it in this way.
		name = "WARNING"
	}
	b.WriteString(name)
	b.WriteByte(' ')
	b.WriteString(r.Message)
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		if h.skip == nil || !h.skip(a) {
			writeAttr(&b, h.prefix, a)
		}
		return true
	})
	line := strings.ReplaceAll(Visible(strings.TrimRight(b.String(), "\n")), "\n", "\n    ") + "\n"
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.out, line)
	return err
}

// Visible has escapes for all that a terminal might take for more than text, besides line ends and
// tabs.
func Visible(s string) string {
	plain := func(r rune) bool { return r == '\n' || r == '\t' || unicode.IsGraphic(r) && r != utf8.RuneError }
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for i, n := 0, 0; i < len(s); i += n {
		var r rune
		if r, n = utf8.DecodeRuneInString(s[i:]); plain(r) {
			b.WriteString(s[i : i+n])
		} else {
			b.WriteString(strings.Trim(strconv.QuoteToGraphic(s[i:i+n]), `"`))
		}
	}
	return b.String()
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, a := range attrs {
		writeAttr(&b, h.prefix, a)
	}
	c := *h
	c.attrs += b.String()
	return &c
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	c := *h
	if name != "" {
		c.prefix += name + "."
	}
	return &c
}

func writeAttr(b *strings.Builder, prefix string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, g := range v.Group() {
			writeAttr(b, prefix, g)
		}
		return
	}
	if a.Key == "" {
		return
	}
	s := fmt.Sprint(v.Any())
	if s == "" || strings.ContainsAny(s, " \"=\n\t") {
		s = strconv.Quote(s)
	}
	fmt.Fprintf(b, " %s%s=%s", prefix, a.Key, s)
}
