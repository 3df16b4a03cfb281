//go:build unix

package dialin

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestSecretFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	s, made, err := ReadOrMakeSecret(path)
	if err != nil || !made {
		t.Fatalf("made %v, error %v, want a new secret", made, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, error %v, want 0600", info.Mode(), err)
	}
	again, made, err := ReadOrMakeSecret(path)
	if err != nil || made || again.Encode() != s.Encode() {
		t.Errorf("made %v, error %v, the same %v, want the secret that is there", made, err, again.Encode() == s.Encode())
	}
	for _, tc := range []struct {
		name, text string
		mode       os.FileMode
		want       string
	}{
		{"readable by others", s.Encode(), 0o604, "chmod 600"},
		{"readable by the group", s.Encode(), 0o640, "chmod 600"},
		{"empty", "", 0o600, "is empty"},
		{"other text", "hunter2", 0o600, "does not begin with"},
		{"short", s.Encode()[:30], 0o600, "letters after"},
		{"two lines", s.Encode() + "\n" + s.Encode(), 0o600, "letters after"},
		{"large", strings.Repeat("x", 2000), 0o600, "more than 1024 bytes"},
	} {
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, tc.mode); err != nil {
			t.Fatal(err)
		}
		_, err := ReadSecret(path)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want an error with %q and the path", tc.name, err, tc.want)
		}
	}
	if _, err := ReadSecret(t.TempDir()); err == nil {
		t.Error("a folder: want an error")
	}
}

// The shell's <(command) is a pipe; one that nobody writes to is an error and does not hold launch
// up.
func TestSecretOfAPipe(t *testing.T) {
	want := NewSecret()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() { _, _ = io.WriteString(w, want.Encode()+"\n"); w.Close() }()
	got, err := ReadSecret(fmt.Sprintf("/dev/fd/%d", r.Fd()))
	if err != nil || got.Encode() != want.Encode() {
		t.Errorf("a pipe with a secret: %v", err)
	}
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSecret(path); err == nil {
		t.Error("a pipe that nobody writes to has a secret")
	}
}

func TestNamesAreInNaturalOrder(t *testing.T) {
	names := []string{"a", "a1", "a01", "a2", "a2b", "a10", "a10b2", "a10b10", "ab", "b"}
	for i, a := range names {
		for j, b := range names {
			got, want := compareNatural(a, b), 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got != want {
				t.Errorf("%q and %q: %d, want %d", a, b, got, want)
			}
		}
	}
}
