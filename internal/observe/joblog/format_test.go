package joblog_test

import (
	"bytes"
	"io"
	"log"
	"log/slog"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/observe/joblog"
)

func environment(list ...string) func(string) string {
	m := map[string]string{}
	for _, x := range list {
		name, value, _ := strings.Cut(x, "=")
		m[name] = value
	}
	return func(name string) string { return m[name] }
}

func TestOneVariableSaysHowMuchIsLogged(t *testing.T) {
	for _, c := range []struct {
		env   string
		level slog.Level
		given bool
	}{
		{"", slog.LevelInfo, false}, {"PARAGON_LOG=debug", slog.LevelDebug, true}, {"PARAGON_LOG=WARN", slog.LevelWarn, true},
		{"PARAGON_LOG=error", slog.LevelError, true}, {"PARAGON_LOG=info", slog.LevelInfo, true}, {"PS_VERBOSE=0", slog.LevelInfo, false},
		{"PS_VERBOSE=1", slog.LevelDebug, true}, {"PS_VERBOSE=2", slog.LevelDebug, true}, {"PS_VERBOSE=yes", slog.LevelInfo, false},
		{"PARAGON_LOG=warn PS_VERBOSE=2", slog.LevelWarn, true},
	} {
		level, given, err := joblog.Level(environment(strings.Fields(c.env)...))
		if level != c.level || given != c.given || err != nil {
			t.Errorf("%q: got %v, given %v, error %v; want %v, %v and none", c.env, level, given, err, c.level, c.given)
		}
	}
	if _, _, err := joblog.Level(environment("PARAGON_LOG=loud")); err == nil || !strings.Contains(err.Error(), `PARAGON_LOG="loud": want debug, info, warn or error`) {
		t.Errorf("loud: got error %v", err)
	}
}

func TestALevelOfItsOwn(t *testing.T) {
	var b bytes.Buffer
	quiet := slog.New(slog.NewTextHandler(&b, nil)) // info
	joblog.WithLevel(quiet, slog.LevelDebug).With("a", 1).WithGroup("g").Debug("seen", "b", 2)
	loud := joblog.WithLevel(quiet, slog.LevelWarn).With("a", 1)
	loud.Info("unseen")
	loud.Warn("warned")
	if got := b.String(); !strings.Contains(got, "msg=seen a=1 g.b=2") || strings.Contains(got, "unseen") || !strings.Contains(got, "msg=warned a=1") {
		t.Errorf("got\n%s", got)
	}
}

// restoreLog lets package log, to which slog's first logger writes, write to w until the function
// that it returns is called.
func restoreLog(w io.Writer) (restore func()) {
	was := log.Writer()
	log.SetOutput(w)
	return func() { log.SetOutput(was) }
}
