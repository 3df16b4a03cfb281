package shown

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
		if got := Name(name); got != want {
			t.Errorf("%.20q of %d bytes: got %s, want %s", name, len(name), got, want)
		}
	}
}

// Lists of names are as fmt writes them, and short.
func TestOfManyNamesTheFirstAreShown(t *testing.T) {
	if got, want := Names([]string{"m", "v"}), `["m" "v"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := Names(strings.Split("abcdefghij", "")), `["a" "b" "c" "d" "e" "f" "g" "h" and 2 more]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := Names(nil); got != "[]" {
		t.Errorf("got %s, want []", got)
	}
}

// Text is not quoted where it is no name.
func TestALongTextIsCut(t *testing.T) {
	for text, want := range map[string]string{"17": "17", strings.Repeat("7", 101): strings.Repeat("7", 100) + "... (101 bytes)"} {
		if got := Cut(text); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
