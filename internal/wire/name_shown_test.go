package wire

import (
	"strings"
	"testing"
)

// A message shows a name of any length in one line.
func TestALongNameIsShortenedInMessages(t *testing.T) {
	for name, want := range map[string]string{
		"conv1.weight":             `"conv1.weight"`,
		strings.Repeat("x", 100):   `"` + strings.Repeat("x", 100) + `"`,
		strings.Repeat("x", 1<<20): `"` + strings.Repeat("x", 100) + `"... (1048576 bytes)`,
		strings.Repeat("ä", 51):    `"` + strings.Repeat("ä", 50) + `"... (102 bytes)`,
	} {
		if got := Shown(name); got != want {
			t.Errorf("%.20q of %d bytes: got %s, want %s", name, len(name), got, want)
		}
	}
}
