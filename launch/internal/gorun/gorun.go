// Package gorun takes a `go run` among the arguments of launch apart, and builds its program.
//
// go run is a poor parent for a worker: it builds anew for each one, does not pass signals on, and
// ends with 1 whatever its program ended with. So launch builds the program once and runs that. The
// words are read as the go command reads them; where this package does not know a flag it says that
// the words are no go run, and the command runs as it was written.
package gorun

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// valueFlags are the build flags of `go run` that take a value in the next word.
var valueFlags = map[string]bool{
	"-C": true, "-p": true, "-tags": true, "-ldflags": true, "-gcflags": true, "-asmflags": true, "-mod": true, "-modfile": true,
	"-overlay": true, "-pgo": true, "-buildmode": true, "-compiler": true, "-installsuffix": true, "-pkgdir": true, "-toolexec": true,
	"-covermode": true, "-coverpkg": true, "-buildvcs": false,
}

// Split takes `go run [flags] package [arguments]` apart. ok is false for any other command, and
// for -exec, which names a program to run the built one with: nothing here would do that.
func Split(args []string) (flags, pkg, rest []string, ok bool) {
	if len(args) < 3 || path.Base(args[0]) != "go" || args[1] != "run" {
		return nil, nil, nil, false
	}
	i := 2
	for ; i < len(args) && strings.HasPrefix(args[i], "-"); i++ {
		name := "-" + strings.TrimLeft(args[i], "-")
		if name == "-exec" || strings.HasPrefix(name, "-exec=") || name == "-" {
			return nil, nil, nil, false
		}
		if valueFlags[name] {
			i++
		}
	}
	first := i
	for i < len(args) && strings.HasSuffix(args[i], ".go") {
		i++
	}
	if i == first {
		i++
	}
	if i > len(args) {
		return nil, nil, nil, false
	}
	return args[2:first], args[first:i], args[i:], true
}

// Build builds the program of `go run`, so that it is built once for all workers, and so that
// they see signals and the program's own exit code, both of which go run keeps to itself. It
// returns the command in its place. env are variables of the build, NAME=VALUE.
func Build(ctx context.Context, args []string, dir string, env ...string) ([]string, error) {
	flags, pkg, rest, ok := Split(args)
	if !ok {
		return args, nil
	}
	name := strings.TrimSuffix(path.Base(filepath.ToSlash(pkg[0])), ".go")
	if abs, err := filepath.Abs(pkg[0]); err == nil && strings.Trim(name, ".") == "" {
		name = filepath.Base(abs)
	}
	program := filepath.Join(dir, name)
	build := exec.CommandContext(ctx, args[0], append(append([]string{"build", "-o", program}, flags...), pkg...)...)
	build.Env = append(os.Environ(), env...)
	out, err := build.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("launch: go build %s: %w\n%s", strings.Join(pkg, " "), err, out)
	}
	return append([]string{program}, rest...), nil
}
