package joblog

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
)

// A Format says how log lines are written.
type Format string

// The formats.
const (
	Text Format = "text"
	JSON Format = "json"
)

// Variable is the environment variable that holds the Format of a job's processes.
const Variable = "PARAGON_LOG_FORMAT"

// ParseFormat reads a Format. The error says what came and which formats there are.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case Text, JSON:
		return f, nil
	}
	return "", fmt.Errorf("%q is unknown; want text or json", s)
}

// FormatFromEnv reads the Format of Variable: Text where it is not set.
func FormatFromEnv(getenv func(string) string) (Format, error) {
	v := getenv(Variable)
	if v == "" {
		return Text, nil
	}
	f, err := ParseFormat(v)
	if err != nil {
		return Text, fmt.Errorf("%s=%w", Variable, err)
	}
	return f, nil
}

// Level reads the log level of a job's processes, and reports whether the environment sets one.
//
//	PARAGON_LOG  debug, info (the default), warn or error
//	PS_VERBOSE   ps-lite's; 1 and more is debug, unless PARAGON_LOG is set
func Level(getenv func(string) string) (level slog.Level, given bool, _ error) {
	if v := getenv("PARAGON_LOG"); v != "" {
		switch strings.ToLower(v) {
		case "debug":
			return slog.LevelDebug, true, nil
		case "info":
			return slog.LevelInfo, true, nil
		case "warn":
			return slog.LevelWarn, true, nil
		case "error":
			return slog.LevelError, true, nil
		}
		return slog.LevelInfo, true, fmt.Errorf("PARAGON_LOG=%q: want debug, info, warn or error", v)
	}
	if n, err := strconv.Atoi(getenv("PS_VERBOSE")); err == nil && n > 0 {
		return slog.LevelDebug, true, nil
	}
	return slog.LevelInfo, false, nil
}

// WithLevel returns a logger like l with another level.
func WithLevel(l *slog.Logger, level slog.Level) *slog.Logger {
	return slog.New(leveled{l.Handler(), level})
}

type leveled struct {
	slog.Handler
	level slog.Level
}

func (h leveled) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }
func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{h.Handler.WithAttrs(attrs), h.level}
}
func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{h.Handler.WithGroup(name), h.level}
}
