package ssh

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// Hosts that share a file system copy into one folder at the same time.
func TestACopyThatMeetsAnotherOneIsRepeated(t *testing.T) {
	for _, c := range []struct {
		// failures is how many calls of rsync fail with this code.
		failures, code int

		calls int
		ok    bool
	}{
		{0, 23, 1, true},
		{2, 23, 3, true}, // a file was there already
		{9, 23, 3, false},
		{1, 24, 2, true},  // a file went away
		{1, 11, 1, false}, // no write permission, no room, ...
	} {
		dir := t.TempDir()
		script := fmt.Sprintf("#!/bin/sh\ncd '%s' && echo x >> calls && [ $(wc -l < calls) -gt %d ] || exit %d\n", dir, c.failures, c.code)
		if err := os.WriteFile(filepath.Join(dir, "rsync"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
		err := New(Config{}).rsync(t.Context(), hosts.Host{Name: "a1"}, "src", "dst")
		calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
		if n := len(calls) / 2; n != c.calls || (err == nil) != c.ok {
			t.Errorf("%d failures with code %d: got %d calls and error %v, want %d calls", c.failures, c.code, n, err, c.calls)
		}
	}
}
