package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// ours are names of variables that need no call to be found. The predecessors' begin so, too.
var ours = regexp.MustCompile(`^(DMLC|PARAGON|PS|MXNET|OTEL)_[A-Z][A-Z0-9_]*[A-Z0-9]$`)

// readers are functions that take the name of a variable.
var readers = []string{"Getenv", "LookupEnv", "getenv", "lookup", "lookupEnv", "env"}

// quoted are strings of Python.
var quoted = regexp.MustCompile(`"[^"\n]*"|'[^'\n]*'`)

// readPython is read for a file of Python, of which only strings that look like ours count.
func readPython(text string) (names []string) {
	for _, s := range quoted.FindAllString(text, -1) {
		if name := s[1 : len(s)-1]; ours.MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

// isTest reports whether a file is one of tests, whose variables nobody sets.
func isTest(file string) bool {
	file = filepath.ToSlash(file)
	return strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testing/") || strings.Contains(file, "python/tests/")
}

var variableName = regexp.MustCompile(`^[A-Z][A-Z0-9_]+$`)

// read are the names of variables in a file: those that it asks for, and strings that look like one
// of ours.
func read(name string, src any) (names []string, err error) {
	f, err := parser.ParseFile(token.NewFileSet(), name, src, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && ours.MatchString(text) {
				names = append(names, text)
			}
		case *ast.CallExpr:
			called := ""
			switch fn := n.Fun.(type) {
			case *ast.SelectorExpr:
				called = fn.Sel.Name
			case *ast.Ident:
				called = fn.Name
			}
			if slices.Contains(readers, called) && len(n.Args) == 1 {
				if lit, ok := n.Args[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil && variableName.MatchString(text) {
						names = append(names, text)
					}
				}
			}
		}
		return true
	})
	return names, nil
}

// Programs that measure, and tests, hand variables to processes of their own: nobody sets those.
func elsewhere(folder string) bool {
	return folder == "bench" || strings.HasPrefix(folder, ".") || folder == "testdata" || folder == "bin" || folder == "out" || folder == "docgen"
}

func TestAllVariablesAreInTheTable(t *testing.T) {
	known := map[string]bool{}
	var everything strings.Builder
	for group, rows := range variables {
		for _, v := range rows {
			if known[v.name] {
				t.Errorf("%s is in the table twice", v.name)
			}
			known[v.name] = true
			if v.meaning == "" || group != "unused" && (v.readBy == "" || v.unset == "") {
				t.Errorf("%s: say what it means, who reads it, and what holds without it", v.name)
			}
		}
	}
	for _, n := range ofOthers {
		known[n] = true
	}
	files := 0
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && elsewhere(d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !slices.Contains([]string{".go", ".py", ".sh", ""}, filepath.Ext(file)):
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		everything.Write(text)
		var names []string
		switch ext := filepath.Ext(file); {
		case isTest(file) || ext != ".go" && ext != ".py":
			return nil
		case ext == ".py":
			names = readPython(string(text))
		default:
			if names, err = read(file, text); err != nil {
				return err
			}
		}
		files++
		for _, n := range names {
			if !known[n] {
				known[n] = true
				t.Errorf("%s reads $%s: put it into the table of tools/docgen/environment.go", file, n)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 500 {
		t.Errorf("only %d files were read", files)
	}
	source := everything.String()
	for group, rows := range variables {
		for _, v := range rows {
			// Paths of libraries are made of their names.
			made := strings.HasSuffix(v.name, "_PATH")
			if !strings.Contains(source, v.name) && !made {
				t.Errorf("nothing reads $%s (%s): take it out of the table", v.name, group)
			}
		}
	}
}

func TestVariablesAreFound(t *testing.T) {
	names, err := read("x.go", `package x
var a = os.Getenv("HOME") + cfg.Env("lower") + lookup("SLURM_JOB_ID") + getenv("A B")
const b, c = "PARAGON_XY", "PARAGON_ is"
func f() { g("DMLC_YZ"); g("OTHER_Z") }`)
	if err != nil || strings.Join(names, " ") != "HOME SLURM_JOB_ID PARAGON_XY DMLC_YZ" {
		t.Errorf("got %q, %v", names, err)
	}
	if names := readPython("MEMBER = \"PARAGON_XY\"\nx = 'DMLC_YZ' + \"PARAGON_\" + 'OTHER_Z'  # PARAGON_NOT"); strings.Join(names, " ") != "PARAGON_XY DMLC_YZ" {
		t.Errorf("of Python: got %q", names)
	}
}
