package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/version"
)

// A project is the Python package as its folder describes it.
type project struct {
	// folder has pyproject.toml, README.md and the package.
	folder string

	// table has the values of pyproject.toml's table [project] and of those below it, by
	// TABLE.KEY. A string is a list of one.
	table map[string][]string
}

// importName is the package that Python imports.
const importName = "paragon"

// readProject reads pyproject.toml, and compares the package's version with the repository's.
func readProject(folder string) (project, error) {
	text, err := os.ReadFile(filepath.Join(folder, "pyproject.toml"))
	if err != nil {
		return project{}, err
	}
	p := project{folder: folder}
	if p.table, err = parseTOML(string(text)); err != nil {
		return project{}, fmt.Errorf("%s: %w", filepath.Join(folder, "pyproject.toml"), err)
	}
	for _, key := range []string{"project.name", "project.description", "project.requires-python", "project.license"} {
		if len(p.table[key]) != 1 {
			return project{}, fmt.Errorf("%s: got %d values of %s, want one", filepath.Join(folder, "pyproject.toml"), len(p.table[key]), key)
		}
	}
	got, err := pythonVersion(filepath.Join(folder, importName, "_version.py"))
	if err != nil {
		return project{}, err
	}
	if got != version.Number {
		return project{}, fmt.Errorf("python/%s/_version.py says %s, and version/version.go %s: write the same into both", importName, got, version.Number)
	}
	return p, nil
}

// versionLine is the line of _version.py that gives the version.
var versionLine = regexp.MustCompile(`(?m)^__version__(?:: \w+)? = "([^"]+)"$`)

func pythonVersion(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	m := versionLine.FindSubmatch(text)
	if m == nil {
		return "", fmt.Errorf(`%s: no line __version__ = "..."`, file)
	}
	return string(m[1]), nil
}

// sources are the package's files, by their paths in the wheel: Python and its type marker.
// Caches and whatever else lies there are left out.
func (p project) sources() ([]file, error) {
	var all []file
	err := filepath.WalkDir(filepath.Join(p.folder, importName), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		switch {
		case d.IsDir() && (name == "__pycache__" || name == "bin"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".py" && name != "py.typed":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		in, err := filepath.Rel(p.folder, path)
		all = append(all, file{name: filepath.ToSlash(in), text: text})
		return err
	})
	if !slices.ContainsFunc(all, func(f file) bool { return f.name == importName+"/__init__.py" }) && err == nil {
		err = fmt.Errorf("%s: the package has no __init__.py", p.folder)
	}
	return all, err
}

// metadata is the text of METADATA: headers, and README as the description.
func (p project) metadata() (string, error) {
	readme, err := os.ReadFile(filepath.Join(p.folder, "README.md"))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	header := func(name, key string) {
		for _, v := range p.table[key] {
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
	}
	b.WriteString("Metadata-Version: 2.4\n")
	header("Name", "project.name")
	fmt.Fprintf(&b, "Version: %s\n", version.Number)
	header("Summary", "project.description")
	header("License-Expression", "project.license")
	b.WriteString("License-File: LICENSE\n")
	header("Classifier", "project.classifiers")
	header("Requires-Python", "project.requires-python")
	header("Requires-Dist", "project.dependencies")
	b.WriteString("Description-Content-Type: text/markdown\n\n")
	b.Write(readme)
	return b.String(), nil
}

// entryPoints is the text of entry_points.txt: the console commands.
func (p project) entryPoints() string {
	var b strings.Builder
	b.WriteString("[console_scripts]\n")
	var keys []string
	for key := range p.table {
		if strings.HasPrefix(key, "project.scripts.") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		fmt.Fprintf(&b, "%s = %s\n", strings.TrimPrefix(key, "project.scripts."), p.table[key][0])
	}
	return b.String()
}
