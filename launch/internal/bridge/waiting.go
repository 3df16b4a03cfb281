package bridge

import (
	"context"
	"log/slog"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// waitingEvery is how often the log says whom a call waits for.
const waitingEvery = 2 * time.Second

// waitingNote says whom a call waits for. The bridge's log has the same line.
type waitingNote struct {
	Note string `json:"note"`
	// Call is what waits, such as "push-pull"; Key and Round are empty for calls about no key.
	Call    string `json:"call"`
	Key     string `json:"key"`
	Round   uint64 `json:"round"`
	Seconds int64  `json:"seconds"`
	For     string `json:"waiting_for"`
}

// waitingNotes is the handler of a store's log. It makes notes of the lines about waits, too.
type waitingNotes struct {
	slog.Handler
	notes chan<- waitingNote
}

// Enabled lets lines about waits come whatever the level of the log is.
func (h waitingNotes) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.Handler.Enabled(ctx, level)
}

func (h waitingNotes) Handle(ctx context.Context, r slog.Record) error {
	note, waiting := waitingNote{Note: "waiting"}, false
	r.Attrs(func(a slog.Attr) bool {
		waiting = note.take(a) || waiting
		return true
	})
	if waiting {
		select {
		case h.notes <- note:
		default:
			// Python does not read, and gets a newer one later.
		}
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h waitingNotes) WithAttrs(attrs []slog.Attr) slog.Handler {
	return waitingNotes{h.Handler.WithAttrs(attrs), h.notes}
}

func (h waitingNotes) WithGroup(name string) slog.Handler {
	return waitingNotes{h.Handler.WithGroup(name), h.notes}
}

// take takes an attribute of a line, and reports whether it says that the line is about a wait.
func (n *waitingNote) take(a slog.Attr) (waiting bool) {
	switch a.Key {
	case "call":
		n.Call = a.Value.String()
	case "key":
		n.Key = shorten(a.Value.String(), maxErrorText)
	case "round":
		if v := a.Value.Resolve(); v.Kind() == slog.KindUint64 {
			n.Round = v.Uint64()
		}
	case "seconds":
		if v := a.Value.Resolve(); v.Kind() == slog.KindInt64 {
			n.Seconds = v.Int64()
		}
	}
	if !joblog.IsEvent(a) {
		return false
	}
	for _, part := range a.Value.Resolve().Group() {
		switch part.Key {
		case "event":
			waiting = part.Value.String() == string(joblog.Waiting)
		case "waiting_for":
			n.For = shorten(part.Value.String(), maxErrorText)
		}
	}
	return waiting
}

// sendWaiting sends notes about waits until the session ends.
func (s *session) sendWaiting() {
	for {
		select {
		case n := <-s.waiting:
			s.note(n, -1)
		case <-s.ctx.Done():
			return
		}
	}
}
