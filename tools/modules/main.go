// Command modules keeps the go.mod files of this repository's modules.
//
//	go run ./tools/modules tidy
//
// The modules require each other at the version of the next release, which nobody serves yet, and
// have no replace directive, since `go install` refuses a module that has one. So tidy runs go mod
// tidy on copies of the go.mod files that replace the repository's modules by their folders.
// Modules that are not in go.work replace nothing of this repository, and are tidied as they are.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 2 || os.Args[1] != "tidy" {
		fmt.Fprintln(os.Stderr, "usage: go run ./tools/modules tidy")
		os.Exit(2)
	}
	if err := tidy("."); err != nil {
		fmt.Fprintln(os.Stderr, "modules:", err)
		os.Exit(1)
	}
}

// tidy tidies every module below root.
func tidy(root string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	used, err := Used(root)
	if err != nil {
		return err
	}
	apart, err := Apart(root, used)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "paragon-modules-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	for _, m := range used {
		if err := tidyUsed(root, m, used, scratch); err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	for _, folder := range apart {
		if _, err := run(folder, []string{"GOWORK=off"}, "go", "mod", "tidy"); err != nil {
			return err
		}
	}
	return nil
}

// tidyUsed tidies one of the workspace's modules.
func tidyUsed(root string, m Module, used []Module, scratch string) error {
	mod, sum := filepath.Join(scratch, "go.mod"), filepath.Join(scratch, "go.sum")
	edit, undo := []string{"mod", "edit"}, []string{"mod", "edit"}
	for _, o := range used {
		if o.Path != m.Path {
			edit = append(edit, "-replace="+o.Path+"="+filepath.Join(root, o.Folder))
			undo = append(undo, "-dropreplace="+o.Path)
		}
	}
	folder := filepath.Join(root, m.Folder)
	for _, step := range []func() error{
		func() error { return copyFile(mod, filepath.Join(folder, "go.mod")) },
		func() error { return copyFile(sum, filepath.Join(folder, "go.sum")) },
		func() error { _, err := run(root, nil, "go", append(edit, mod)...); return err },
		func() error {
			_, err := run(folder, []string{"GOWORK=off"}, "go", "mod", "tidy", "-modfile="+mod)
			return err
		},
		func() error { _, err := run(root, nil, "go", append(undo, mod)...); return err },
		func() error { return copyFile(filepath.Join(folder, "go.mod"), mod) },
		func() error { return copyFile(filepath.Join(folder, "go.sum"), sum) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file; one that is not there becomes an empty one.
func copyFile(to, from string) error {
	b, err := os.ReadFile(from)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// run runs a program in a folder and returns its standard output.
func run(folder string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var stdout, stderr strings.Builder
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = folder, append(os.Environ(), env...), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("in %s: %s %s: %w\n%s%s", folder, name, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}
