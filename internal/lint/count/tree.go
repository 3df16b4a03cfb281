package count

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Tree has the figures of every package below a root, in order of their paths.
type Tree struct {
	Packages []*Package
}

// A Package has the figures of the files of one folder.
type Package struct {
	// Path is the folder's path in the tree, with slashes.
	Path string

	// Code and Tests are the lines of files that are no tests, and of those that are.
	Code, Tests Lines

	// Types, Functions and Imports are those of files that are no tests. Imports are paths in the
	// tree, in order.
	Types     []Type
	Functions []Function
	Imports   []string

	// Arrows are the uses of one file's names by another.
	Arrows Arrows
}

// Read counts the tree below root. Folders that the go tool does not look into, and what programs
// wrote into bin and out, are left out. module is the path of the root's module, with a slash.
func Read(root, module string) (*Tree, error) {
	var t Tree
	err := filepath.WalkDir(root, func(folder string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		name := d.Name()
		if folder != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "bin" || name == "out") {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(root, folder)
		if err != nil {
			return err
		}
		p, err := readPackage(folder, filepath.ToSlash(rel), module)
		if p != nil {
			t.Packages = append(t.Packages, p)
		}
		return err
	})
	slices.SortFunc(t.Packages, func(a, b *Package) int { return strings.Compare(a.Path, b.Path) })
	return &t, err
}

// readPackage returns nil if the folder has no Go files.
func readPackage(folder, rel, module string) (*Package, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(names) == 0 {
		return nil, err
	}
	p := &Package{Path: rel}
	set := token.NewFileSet()
	types := newTypeTable()
	var built []*ast.File
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(name, "_test.go") {
			p.Tests.add(countLines(text))
			continue
		}
		p.Code.add(countLines(text))
		f, err := parser.ParseFile(set, filepath.Base(name), text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		types.add(f)
		p.Functions = append(p.Functions, functions(set, f, rel+"/"+filepath.Base(name))...)
		if err := p.addImports(f, module); err != nil {
			return nil, err
		}
		if isBuilt(filepath.Base(name), f) {
			built = append(built, f)
		}
	}
	slices.Sort(p.Imports)
	p.Types = types.list(rel)
	p.Arrows = arrowsOf(uses(set, built))
	return p, nil
}

func (p *Package) addImports(f *ast.File, module string) error {
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		if own, ok := strings.CutPrefix(imported, module); ok && !slices.Contains(p.Imports, own) {
			p.Imports = append(p.Imports, own)
		}
	}
	return nil
}

// isBuilt reports whether a file belongs to the package on Linux and amd64 with cgo. Arrows need
// files that fit together: those for other systems declare the same names once more.
func isBuilt(name string, f *ast.File) bool {
	tag := func(tag string) bool {
		return tag == "linux" || tag == "unix" || tag == "amd64" || tag == "cgo" || strings.HasPrefix(tag, "go1")
	}
	for _, part := range strings.Split(strings.TrimSuffix(name, ".go"), "_")[1:] {
		if slices.Contains([]string{"windows", "darwin", "freebsd", "arm64", "arm", "386"}, part) {
			return false
		}
	}
	for _, group := range f.Comments {
		for _, c := range group.List {
			if expr, err := constraint.Parse(c.Text); err == nil && constraint.IsGoBuild(c.Text) && c.Pos() < f.Package && !expr.Eval(tag) {
				return false
			}
		}
	}
	return true
}
