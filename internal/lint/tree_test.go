package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// root is the repository's folder.
var root = filepath.Join("..", "..")

// A repository is what the tests read of it. It is read and parsed once for all of them, and never
// changed.
type repository struct {
	files []sourceFile

	// source is what documents name.
	source *sourceText
}

// A sourceFile is what the tests want to know of one file of the repository. Its syntax is not
// kept: that of all files takes gigabytes under the race detector.
type sourceFile struct {
	// name is its path in the repository, with slashes.
	name string
	text []byte

	// apart says that the file is in a module that go.work does not name.
	apart bool

	// isGo says that the file is Go; what follows is empty for others.
	isGo bool

	imports []string

	// functions are the names of its functions, without methods.
	functions []string

	// cipher is what looks like a cipher in it.
	cipher string
	words  []finding

	// These are empty for tests, too.
	wallTimes, textMatches, launcherTexts, leaks []string
}

// examine fills in what the tests want to know of the file.
func (f *sourceFile) examine(set *token.FileSet, source *sourceText) error {
	var syntax *ast.File
	if path.Ext(f.name) == ".go" {
		var err error
		if syntax, err = parser.ParseFile(set, filepath.Join(root, filepath.FromSlash(f.name)), f.text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return err
		}
		f.isGo = true
	}
	f.cipher = cipherOf(f.name, f.text, syntax)
	switch {
	case strings.HasSuffix(f.name, ".md"):
		f.words = badPhrases(f.name, string(f.text))
		return nil
	case syntax == nil:
		return nil
	}
	f.words = badWords(f.folder(), f.name, set, syntax)
	for _, spec := range syntax.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		f.imports = append(f.imports, p)
	}
	for _, d := range syntax.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
			f.functions = append(f.functions, fn.Name.Name)
		}
	}
	if !f.isCode() {
		return nil
	}
	f.wallTimes = wallTimes(set, syntax)
	f.textMatches = textMatches(set, syntax)
	f.launcherTexts = launcherTexts(set, syntax)
	f.leaks = leaks(set, syntax)
	if !f.within("internal/testing") {
		source.add(f.folder(), syntax)
	}
	return nil
}

func (f *sourceFile) folder() string { return path.Dir(f.name) }

func (f *sourceFile) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

func (f *sourceFile) isTestdata() bool { return strings.Contains("/"+f.name, "/testdata/") }

// isCode says that the file is Go of ours, and no test.
func (f *sourceFile) isCode() bool { return f.isGo && !f.isTest() && !f.isTestdata() }

// within says that the file is in a folder, or below it.
func (f *sourceFile) within(folder string) bool { return strings.HasPrefix(f.name, folder+"/") }

// looked are the files whose text some test looks into.
var looked = []string{".go", ".s", ".c", ".h", ".md", ".sh", ".yml", ".yaml", ""}

// readRepository leaves out hidden folders, and what programs wrote into bin and out.
var readRepository = sync.OnceValues(func() (*repository, error) {
	r := &repository{source: newSourceText()}
	set := token.NewFileSet()
	workspace, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	modules := strings.Fields(string(workspace))
	var apart []string
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && strings.HasPrefix(d.Name(), ".") || rel == "bin" || rel == "out" {
				return filepath.SkipDir
			}
			_, err := os.Stat(filepath.Join(file, "go.mod"))
			if err == nil && rel != "." && !slices.Contains(modules, "./"+rel) {
				apart = append(apart, rel+"/")
			}
			return nil
		}
		if !slices.Contains(looked, path.Ext(rel)) {
			return nil
		}
		f := sourceFile{name: rel, apart: slices.ContainsFunc(apart, func(m string) bool { return strings.HasPrefix(rel, m) })}
		if f.text, err = os.ReadFile(file); err != nil {
			return err
		}
		if err := f.examine(set, r.source); err != nil {
			return err
		}
		r.files = append(r.files, f)
		return nil
	})
	return r, err
})

// theRepository is what readRepository returns.
func theRepository(t *testing.T) *repository {
	t.Helper()
	r, err := readRepository()
	if err != nil {
		t.Fatal(err)
	}
	if len(r.files) < 1500 {
		t.Fatalf("%d files were read, want all of the repository", len(r.files))
	}
	return r
}

// code calls do for each file that is Go of ours and no test, below one of the folders (none: in
// all of them).
func (r *repository) code(do func(f *sourceFile), folders ...string) {
	for i := range r.files {
		f := &r.files[i]
		if f.isCode() && (len(folders) == 0 || slices.ContainsFunc(folders, f.within)) {
			do(f)
		}
	}
}

// imports is what imports.Read returns for the repository.
func (r *repository) imports(prefix string) map[string][]string {
	found := make(map[string][]string)
	r.code(func(f *sourceFile) {
		if f.apart {
			return
		}
		all := found[f.folder()]
		for _, p := range f.imports {
			if own, ok := strings.CutPrefix(p, prefix); ok && !slices.Contains(all, own) {
				all = append(all, own)
			}
		}
		slices.Sort(all)
		found[f.folder()] = all
	})
	return found
}

// parseText parses Go that a test has as a text.
func parseText(t *testing.T, name, text string) (*token.FileSet, *ast.File) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return set, f
}
