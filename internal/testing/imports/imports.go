// Package imports reads which packages of a folder import which, whatever system or build tags
// their files are for.
package imports

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Module is the path of the root module, with a slash. The other modules' paths begin with it.
const Module = "github.com/paragon-train/paragon/"

// Apart reports whether a folder below root is that of a module which root's go.work does not use:
// one with requirements that nobody else shall have.
func Apart(root, folder string) bool {
	if _, err := os.Stat(filepath.Join(folder, "go.mod")); err != nil {
		return false
	}
	rel, err := filepath.Rel(root, folder)
	if err != nil {
		return true
	}
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		return rel != "."
	}
	use := "./" + filepath.ToSlash(rel)
	return rel != "." && !slices.ContainsFunc(strings.Split(string(work), "\n"), func(line string) bool { return strings.TrimSpace(line) == use })
}

// Read returns, for the folder of every package below root, the paths it imports that begin with
// prefix, which is left out of them, in order. Tests, modules apart and folders without packages of
// ours (testdata, bin, out, hidden ones) are left out.
func Read(root, prefix string) (map[string][]string, error) {
	imports := make(map[string][]string)
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "bin" || name == "out") {
				return filepath.SkipDir
			}
			if Apart(root, file) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		pkg := path.Clean(filepath.ToSlash(rel))
		all := imports[pkg]
		for _, spec := range f.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if own, ok := strings.CutPrefix(p, prefix); ok && !slices.Contains(all, own) {
				all = append(all, own)
			}
		}
		slices.Sort(all)
		imports[pkg] = all
		return nil
	})
	return imports, err
}
