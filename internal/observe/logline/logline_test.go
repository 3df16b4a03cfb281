package logline

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"
)

func TestLinesLookLikeTheTutorials(t *testing.T) {
	at := time.Date(2018, 6, 3, 5, 30, 5, 609_000_000, time.UTC)
	var out bytes.Buffer
	h := New(&out, slog.LevelInfo, nil)
	record := func(h slog.Handler, l slog.Level, text string, args ...any) {
		r := slog.NewRecord(at, l, text, 0)
		r.Add(args...)
		if err := h.Handle(context.Background(), r); err != nil {
			t.Error(err)
		}
	}
	record(h, slog.LevelInfo, "rsync /home/ubuntu/cifar10_dist/ -> a1:/home/ubuntu/cifar10_dist")
	record(h, slog.LevelWarn, "slow", "err", errors.New("a b"), slog.Group("g", "n", 1))
	record(h.WithAttrs([]slog.Attr{slog.Int("rank", 3)}).WithGroup("x"), slog.LevelError, "two\nlines", "k", "")
	want := `2018-06-03 05:30:05,609 INFO rsync /home/ubuntu/cifar10_dist/ -> a1:/home/ubuntu/cifar10_dist
2018-06-03 05:30:05,609 WARNING slow err="a b" g.n=1
2018-06-03 05:30:05,609 ERROR two
    lines rank=3 x.k=""
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	if h.Enabled(context.Background(), slog.LevelDebug) {
		t.Error("debug is enabled at level info")
	}
}
