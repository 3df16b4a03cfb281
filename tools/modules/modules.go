package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// A Module is one of the repository's, as its go.mod says.
type Module struct {
	// Folder is from the repository's root, with slashes. It is "." for the root module.
	Folder string

	Path string

	// Go is the least version of Go.
	Go string

	Requires []Requirement
	Replaces int
}

// A Requirement is a module of any repository.
type Requirement struct {
	Path, Version string
	Indirect      bool
}

// Version is that at which m requires the module of a path, or "".
func (m Module) Version(path string) string {
	for _, r := range m.Requires {
		if r.Path == path {
			return r.Version
		}
	}
	return ""
}

// read reads the go.mod in a folder of the repository.
func read(root, folder string) (m Module, err error) {
	out, err := run(filepath.Join(root, folder), nil, "go", "mod", "edit", "-json")
	if err != nil {
		return m, err
	}
	var file struct {
		Module  struct{ Path string }
		Go      string
		Require []Requirement
		Replace []any
	}
	if err := json.Unmarshal([]byte(out), &file); err != nil {
		return m, fmt.Errorf("%s/go.mod: %w", folder, err)
	}
	return Module{Folder: folder, Path: file.Module.Path, Go: file.Go, Requires: file.Require, Replaces: len(file.Replace)}, nil
}

// A workspace is what go.work says.
type workspace struct {
	Go      string
	Use     []struct{ DiskPath string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

func readWork(root string) (w workspace, err error) {
	out, err := run(root, nil, "go", "work", "edit", "-json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &w)
	}
	return w, err
}

// Used are the modules of go.work, the root's first.
func Used(root string) (list []Module, err error) {
	w, err := readWork(root)
	if err != nil {
		return nil, err
	}
	for _, u := range w.Use {
		m, err := read(root, filepath.ToSlash(filepath.Clean(u.DiskPath)))
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b Module) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

// Apart are the folders of modules that are not in go.work.
func Apart(root string, used []Module) (folders []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if d.Name() != "go.mod" {
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err == nil && !slices.ContainsFunc(used, func(m Module) bool { return m.Folder == filepath.ToSlash(folder) }) {
			folders = append(folders, filepath.Join(root, folder))
		}
		return err
	})
	return folders, err
}
