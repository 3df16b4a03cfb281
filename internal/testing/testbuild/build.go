// Package testbuild builds the programs that tests start.
package testbuild

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/paragon-train/paragon/"

// Programs builds programs of this repository into a folder, by their packages' paths in it:
// "launch", "examples/cifar10".
//
// All tests build in one way, so that each package is compiled once for all of them: static,
// without the race detector, with which training takes many times as long, without debug
// information, and without the clouds' SDKs, which are half of the compiler's work on an example.
// make test compiles with the same flags.
func Programs(folder string, packages ...string) error {
	return goRun("build", "nobuckets", folder, packages)
}

// Tests builds the test programs of packages, with a build tag, as their last elements and .test.
func Tests(folder, tag string, packages ...string) error {
	return goRun("test -c -vet=off", tag, folder, packages)
}

func goRun(command, tag, folder string, packages []string) error {
	args := append(strings.Fields(command), "-gcflags=all=-dwarf=false", "-ldflags=-s -w", "-tags="+tag, "-o", folder+string(os.PathSeparator))
	for _, p := range packages {
		args = append(args, module+p)
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	build := exec.Command("go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", strings.Join(packages, " and "), err, out)
	}
	return nil
}

// NeedsWorkspace skips a test that builds programs of other modules of this repository where
// go.work does not join them: with GOWORK=off, which is how a user's build sees one module, and in
// a module's own files outside the repository.
func NeedsWorkspace(t testing.TB) {
	t.Helper()
	out, err := exec.Command("go", "env", "GOWORK").Output()
	if err != nil {
		t.Fatal(err)
	}
	if file := strings.TrimSpace(string(out)); file == "" || file == "off" {
		t.Skip("builds programs of other modules, and there is no workspace (go env GOWORK)")
	}
}
