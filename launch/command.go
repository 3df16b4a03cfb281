package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// command is what the workers run: words as they are, or one word of shell syntax in a shell.
func command(args []string) []string {
	if len(args) == 1 && strings.ContainsAny(args[0], " \t\n'\"\\$`;&|<>()*?[]{}~#!") {
		if _, err := os.Stat(args[0]); err == nil {
			return args // a file of that name
		}
		return []string{"/bin/sh", "-c", args[0]}
	}
	return args
}

// goRunFlags are the build flags of `go run` that take a value in the next word.
var goRunFlags = map[string]bool{
	"-C": true, "-p": true, "-tags": true, "-ldflags": true, "-gcflags": true, "-asmflags": true, "-mod": true, "-modfile": true,
	"-overlay": true, "-pgo": true, "-buildmode": true, "-compiler": true, "-installsuffix": true, "-pkgdir": true, "-toolexec": true,
	"-covermode": true, "-coverpkg": true, "-buildvcs": false,
}

// splitGoRun takes `go run [flags] package [arguments]` apart. It says no to what it does not know.
func splitGoRun(args []string) (flags, pkg, rest []string, ok bool) {
	if len(args) < 3 || path.Base(args[0]) != "go" || args[1] != "run" {
		return nil, nil, nil, false
	}
	i := 2
	for ; i < len(args) && strings.HasPrefix(args[i], "-"); i++ {
		name := "-" + strings.TrimLeft(args[i], "-")
		if name == "-exec" || strings.HasPrefix(name, "-exec=") || name == "-" {
			return nil, nil, nil, false
		}
		if goRunFlags[name] {
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

// buildGoRun builds the program of `go run`, so that it is built once for all workers, and so that
// they see signals and the program's own exit code, both of which go run keeps to itself. It
// returns the command in its place. env are variables of the build, NAME=VALUE.
func buildGoRun(ctx context.Context, args []string, dir string, env ...string) ([]string, error) {
	flags, pkg, rest, ok := splitGoRun(args)
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
