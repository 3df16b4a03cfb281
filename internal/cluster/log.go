package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
)

// LogLevel reads the log level of a job's processes, and reports whether the environment sets one.
//
//	PARAGON_LOG  debug, info (the default), warn or error
//	PS_VERBOSE   ps-lite's; 1 and more is debug, unless PARAGON_LOG is set
func LogLevel(getenv func(string) string) (level slog.Level, given bool, _ error) {
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
		return slog.LevelInfo, true, fmt.Errorf("cluster: PARAGON_LOG=%q: want debug, info, warn or error", v)
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

// unusedVariables are variables of ps-lite and MXNet that have no effect in Paragon, and what to use instead.
var unusedVariables = []struct{ name, instead string }{
	{"MXNET_KVSTORE_BIGARRAY_BOUND", "the scheduler cuts and places arrays by bytes; there is no setting"},
	{"MXNET_KVSTORE_SLICE_THRESHOLD", "the scheduler cuts and places arrays by bytes; there is no setting"},
	{"MXNET_KVSTORE_REDUCTION_NTHREADS", "sums use vector instructions on the caller's thread; there is no setting"},
	{"MXNET_UPDATE_ON_KVSTORE", "use worker.Config.UpdateOnWorker"},
	{"DMLC_PS_VAN_TYPE", "use PARAGON_TRANSPORT=auto, unix or tcp"},
	{"PS_RESEND", "requests are always repeated until they are answered; there is no setting"},
	{"PS_RESEND_TIMEOUT", "requests are always repeated until they are answered; there is no setting"},
	{"PS_HEARTBEAT_INTERVAL", "use PARAGON_HEARTBEAT, such as 1s"},
	{"PS_HEARTBEAT_TIMEOUT", "use PARAGON_LEASE, such as 10s"},
}

// ForeignVariables returns a line for each variable of ps-lite and MXNet that is set and has no effect; the line says what to use.
func ForeignVariables(getenv func(string) string) []string {
	var lines []string
	for _, f := range unusedVariables {
		if v := getenv(f.name); v != "" {
			lines = append(lines, fmt.Sprintf("%s=%s has no effect in Paragon: %s", f.name, v, f.instead))
		}
	}
	return lines
}
