package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The toolchain that runs the tests has the Now that is known here, and of another one it is said.
func TestNowOfThisGoIsKnown(t *testing.T) {
	now, err := os.ReadFile(filepath.Join(runtime.GOROOT(), "src", "time", "time.go"))
	if err != nil {
		t.Skipf("the toolchain's sources are not here: %v", err)
	}
	got, err := change(string(now))
	if err != nil || strings.Count(got, "wallJump.Load()") != 1 {
		t.Errorf("change: %v, want Now with a jump", err)
	}
	if _, err := change("package time\n\nfunc Now() Time {\n\treturn Time{}\n}\n"); err == nil {
		t.Error("change of another Now: no error")
	}
}
