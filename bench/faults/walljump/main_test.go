package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The toolchain that runs the tests has the Now that is known here, and of another one it is said.
func TestNowOfThisGoIsKnown(t *testing.T) {
	src, err := timeSource()
	if err != nil {
		t.Fatal(err)
	}
	now, err := os.ReadFile(filepath.Join(src, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := change(string(now))
	if err != nil || strings.Count(got, "wallJump.Load()") != 1 {
		t.Errorf("change: %v, want Now with a jump", err)
	}
	if _, err := change("package time\n\nfunc Now() Time {\n\treturn Time{}\n}\n"); err == nil {
		t.Error("change of another Now: no error")
	}
}

// Writing within a module adds no package to it, so that go build ./... still works afterwards.
func TestOverlayIsNoPackageOfTheModule(t *testing.T) {
	module := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.com/m\n\ngo 1.24\n", "m.go": "package m\n"} {
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(filepath.Join(module, "bin", "walljump")); err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "./...")
	list.Dir = module
	list.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := list.CombinedOutput()
	if got, want := strings.TrimSpace(string(out)), "example.com/m"; err != nil || got != want {
		t.Errorf("go list ./... after writing the overlay into bin/walljump: %q (%v), want %q", got, err, want)
	}
}
