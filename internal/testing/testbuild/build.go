// Package testbuild builds the programs that tests start.
package testbuild

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

const module = "github.com/paragon-train/paragon/"

// Programs builds programs of this module into a folder, by their packages' paths in the module: "launch", "examples/cifar10".
//
// All tests build in one way, so that each package is compiled once for all of them: static, without the race detector, with which training takes
// many times as long, without debug information, and without the clouds' SDKs, which are half of the compiler's work on an example. make test compiles
// with the same flags.
func Programs(folder string, packages ...string) error {
	args := []string{"build", "-gcflags=all=-dwarf=false", "-ldflags=-s -w", "-tags=nobuckets", "-o", folder + string(os.PathSeparator)}
	for _, p := range packages {
		args = append(args, module+p)
	}
	build := exec.Command("go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", strings.Join(packages, " and "), err, out)
	}
	return nil
}
