package logline

import (
	"log/slog"
	"strings"
	"testing"
	"unicode"
)

// What hosts and commands say goes into messages. It must not move the cursor, hide a line or make
// another one.
func TestControlCharactersAreShown(t *testing.T) {
	for message, want := range map[string]string{
		"exit 3: \x1b[2J\x1b]0;x\a":         `exit 3: \x1b[2J\x1b]0;x\a`,
		"ok\r2018-06-03 INFO done":          `ok\r2018-06-03 INFO done`,
		"a\tb":                              "a\tb",
		"two\nlines":                        "two\n    lines",
		"\u009b2J \u202e abc \u2028 \x7f":   `\u009b2J \u202e abc \u2028 \x7f`,
		"no text \xff\x9b":                  `no text \xff\x9b`,
		"host é.例, 100 %, \u00a0, \"x\\y\"": "host é.例, 100 %, \u00a0, \"x\\y\"",
	} {
		var b strings.Builder
		log := slog.New(New(&b, slog.LevelInfo, nil))
		log.Info(message)
		_, text, _ := strings.Cut(b.String(), " INFO ")
		if text != want+"\n" {
			t.Errorf("message %q: got %q, want %q", message, text, want+"\n")
		}
		b.Reset()
		log.With("k", message).Info("m", "k", message)
		for _, r := range strings.TrimSuffix(b.String(), "\n") {
			if unicode.IsControl(r) {
				t.Errorf("attribute %q: got %q", message, b.String())
			}
		}
	}
}
