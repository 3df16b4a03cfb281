package addressfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAddressesAreReadFromWordsAndFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "addresses")
	if err := os.WriteFile(file, []byte("10.0.0.5:4000\n10.0.1.5:4000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]string{
		"head:4000":             {"head:4000"},
		"head:4000,[fe80::1]:7": {"head:4000", "[fe80::1]:7"},
		"@" + file:              {"10.0.0.5:4000", "10.0.1.5:4000"},
	} {
		read, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := read(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestWhatIsNoAddressIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		"":          "give --join ADDR",
		"@":         "want @FILE",
		"head":      `"head" is not an address, want host:port`,
		"head:0":    "is not an address",
		":4000":     "is not an address",
		"head:http": "is not an address",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--join %q: got error %v, want one with %q", text, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "addresses")
	read, err := Parse("@" + file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read(); err == nil {
		t.Error("a file that is not there is no error")
	}
	for text, want := range map[string]string{"": "no address", strings.Repeat("h:1\n", maxBytes): "want at most"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a file of %d bytes: got error %v, want one with %q", len(text), err, want)
		}
	}
}

// Two launchers may be given the same file: the one that ends first must not take away where the other
// one listens.
func TestRemoveLeavesTheFileOfAnotherLauncher(t *testing.T) {
	file := filepath.Join(t.TempDir(), "addresses")
	first, second := []string{"a:1"}, []string{"b:2", "c:3"}
	for _, addresses := range [][]string{first, second} {
		if err := Write(file, addresses); err != nil {
			t.Fatal(err)
		}
	}
	Remove(file, first)
	if b, err := os.ReadFile(file); err != nil || string(b) != "b:2\nc:3\n" {
		t.Errorf("after the first launcher has ended the file is %q, %v, want the second one's addresses", b, err)
	}
	Remove(file, second)
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) > 0 {
		t.Errorf("after both have ended there are %v, %v, want no file", left, err)
	}
}
