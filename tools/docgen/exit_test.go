package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var exitName = regexp.MustCompile(`^[eE]xit[A-Z]`)

// exitCodes are the codes in a file: constants such as exitUsage, and calls of os.Exit and
// ExitError with a number.
func exitCodes(name string, src any) (codes []string, err error) {
	f, err := parser.ParseFile(token.NewFileSet(), name, src, 0)
	if err != nil {
		return nil, err
	}
	number := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.INT {
			codes = append(codes, lit.Value)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, id := range n.Names {
				if exitName.MatchString(id.Name) && i < len(n.Values) {
					number(n.Values[i])
				}
			}
		case *ast.CallExpr:
			called := ""
			switch fn := n.Fun.(type) {
			case *ast.SelectorExpr:
				called = fn.Sel.Name
			case *ast.Ident:
				called = fn.Name
			}
			if (called == "Exit" || called == "ExitError") && len(n.Args) == 1 {
				number(n.Args[0])
			}
		}
		return true
	})
	return codes, nil
}

func TestAllExitCodesAreOnThePage(t *testing.T) {
	const name = "exit-codes.md"
	page, err := os.ReadFile(filepath.Join(root, reference, name))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, folder := range []string{"launch", "examples", "bench/gpucheck", "internal/member/control", "tune", "worker"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			codes, err := exitCodes(file, nil)
			for _, c := range codes {
				found++
				if !regexp.MustCompile(`\b` + c + `\b`).Match(page) {
					t.Errorf("%s ends a program with %s, which %s does not explain", file, c, name)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 20 {
		t.Errorf("only %d exit codes were found", found)
	}
}

func TestExitCodesAreFound(t *testing.T) {
	codes, err := exitCodes("x.go", `package x
const exitUsage, other = 2, 9
var _ = 5
func f() error { os.Exit(143); os.Exit(code); return ExitError(1) }`)
	if err != nil || strings.Join(codes, " ") != "2 143 1" {
		t.Errorf("got %q, %v", codes, err)
	}
}
