package joblog

import (
	"context"
	"log"
	"log/slog"
	"os"
	"sync"

	"github.com/paragon-train/paragon/internal/observe/logline"
)

// Default is the logger of a process whose program gives none, as the environment says: format and
// level. nil stands for os.Getenv, and then all JSON loggers of the process share one Identity. In
// text it is slog.Default().
func Default(getenv func(string) string) (*slog.Logger, error) {
	own := getenv == nil
	if own {
		getenv = os.Getenv
	}
	format, err := FormatFromEnv(getenv)
	if err != nil {
		return nil, err
	}
	level, given, err := Level(getenv)
	switch {
	case err != nil:
		return nil, err
	case format == JSON && own:
		return process(), nil
	case format == JSON:
		return New(os.Stderr, level, FromEnv(getenv)), nil
	case given:
		return WithLevel(text(), level), nil
	}
	return text(), nil
}

// Process is the logger for packages that know nothing of a job: Default's in JSON, else
// slog.Default().
func Process() *slog.Logger {
	if os.Getenv(Variable) == string(JSON) {
		return process()
	}
	return text()
}

// process is the one JSON logger of a process, as slog.Default is its one text logger.
var process = sync.OnceValue(func() *slog.Logger {
	// Default and launch say what is wrong with the level.
	level, _, _ := Level(os.Getenv)
	return New(os.Stderr, level, FromEnv(os.Getenv))
})

// initial is slog's logger where the program sets none.
var initial = slog.Default()

// text is slog.Default(), without events where their attributes would be mere text. In a process
// that launch started, whose program has changed neither slog's logger nor package log's, lines are
// like those of launch.
func text() *slog.Logger {
	l := slog.Default()
	switch {
	case l != initial:
		return l
	case os.Getenv("PARAGON_PROCESS") != "" && log.Writer() == os.Stderr && log.Flags() == log.LstdFlags && log.Prefix() == "":
		return launched()
	}
	return slog.New(withoutEvents{l.Handler()})
}

// launched is the one logger of a process that launch started.
var launched = sync.OnceValue(func() *slog.Logger { return slog.New(logline.New(os.Stderr, slog.LevelInfo, IsEvent)) })

// withoutEvents leaves events out.
type withoutEvents struct{ slog.Handler }

func (h withoutEvents) Handle(ctx context.Context, r slog.Record) error {
	found := false
	r.Attrs(func(a slog.Attr) bool { found = IsEvent(a); return !found })
	if !found {
		return h.Handler.Handle(ctx, r)
	}
	rest := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if !IsEvent(a) {
			rest.AddAttrs(a)
		}
		return true
	})
	return h.Handler.Handle(ctx, rest)
}

func (h withoutEvents) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutEvents{h.Handler.WithAttrs(attrs)}
}
func (h withoutEvents) WithGroup(name string) slog.Handler {
	return withoutEvents{h.Handler.WithGroup(name)}
}
