package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/imports"
)

// Programs outside this module cannot name types of internal packages: an exported signature that
// has one is of no use to them.

// leaks lists the exported declarations of one file that name a type of an internal package.
func leaks(set *token.FileSet, f *ast.File) (found []string) {
	if f.Name.Name == "main" {
		return nil
	}

	// hidden has paths of internal packages by the name in this file.
	hidden := map[string]string{}
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		if !strings.Contains("/"+p+"/", "/internal/") {
			continue
		}
		as := p[strings.LastIndex(p, "/")+1:]
		if spec.Name != nil {
			as = spec.Name.Name
		}
		hidden[as] = p
	}
	if len(hidden) == 0 {
		return nil
	}
	look := func(of string, n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && hidden[x.Name] != "" {
				found = append(found, fmt.Sprintf("%s: %s names %s.%s", set.Position(sel.Pos()), of, x.Name, sel.Sel.Name))
			}
			return true
		})
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d.Recv)) {
				look(d.Name.Name, d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						if s.TypeParams != nil {
							look(s.Name.Name, s.TypeParams)
						}
						lookType(s.Name.Name, s.Type, look)
					}
				case *ast.ValueSpec:
					if s.Type != nil && slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
						look(s.Names[0].Name, s.Type)
					}
				}
			}
		}
	}
	return found
}

func exportedReceiver(recv *ast.FieldList) bool {
	exported := false
	ast.Inspect(recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			exported = id.IsExported()
			return false
		}
		return true
	})
	return exported
}

// lookType looks at what programs see of a type: of a struct its exported and embedded fields, of
// an interface its exported methods.
func lookType(name string, t ast.Expr, look func(of string, n ast.Node)) {
	var fields *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		fields = t.Fields
	case *ast.InterfaceType:
		fields = t.Methods
	default:
		look(name, t)
		return
	}
	for _, field := range fields.List {
		if len(field.Names) == 0 {
			look(name, field.Type)
		}
		for _, n := range field.Names {
			if n.IsExported() {
				look(name+"."+n.Name, field.Type)
			}
		}
	}
}

// notPublic has commands and documents.
var notPublic = []string{"bench", "examples", "launch", "docs", "tools"}

// public reports whether programs outside this module may import a folder's package.
func public(folder string) bool {
	top, _, _ := strings.Cut(folder, "/")
	return !strings.Contains("/"+folder+"/", "/internal/") && !slices.Contains(notPublic, top)
}

func TestPublicSignaturesNameNoInternalType(t *testing.T) {
	seen := 0
	theRepository(t).code(func(f *sourceFile) {
		if f.apart || !public(f.folder()) {
			return
		}
		seen++
		for _, leak := range f.leaks {
			t.Error(leak + ": give programs a type of this package, or move what only this module uses to an internal package")
		}
	})
	if seen < 100 {
		t.Errorf("got %d files of public packages, want many more", seen)
	}
}

func TestLeaksAreFound(t *testing.T) {
	const head = "package x\nimport (\"context\"; \"m/internal/wire\"; in \"m/internal/shard\")\n"
	for _, tc := range []struct {
		code string
		want int
	}{
		{"func F(m wire.Message) {}", 1},
		{"func f(m wire.Message) {}", 0},
		{"func F(ctx context.Context) { var m wire.Message; _ = m }", 0},
		{"func F() map[string][]*in.Guard { return nil }", 1},
		{"type T struct { M wire.Message; m wire.Message }", 1},
		{"type T struct { wire.Message }", 1},
		{"type t struct { M wire.Message }", 0},
		{"type T struct{}; func (*T) F(m wire.Message) {}; func (*T) f(m wire.Message) {}", 1},
		{"type t struct{}; func (t) F(m wire.Message) {}", 0},
		{"type I interface { F(wire.Message); G() in.Guard }", 2},
		{"type G = in.Guard", 1},
		{"type F func(wire.Message)", 1},
		{"var V wire.Message", 1},
		{"var v wire.Message", 0},
		{"type T[M wire.Message] struct{}; func F[M any]() {}", 1},
	} {
		if found := leaks(parseText(t, "x.go", head+tc.code)); len(found) != tc.want {
			t.Errorf("%s: got %q, want %d", tc.code, found, tc.want)
		}
	}
	if found := leaks(parseText(t, "x.go", "package main\nimport \"m/internal/wire\"\nfunc F(wire.Message) {}")); len(found) != 0 {
		t.Errorf("a command: got %q, want nothing", found)
	}
}

// withoutExample are public packages whose use no example with output can show.
var withoutExample = map[string]string{
	"kvstore/kvstoretest": "it runs within a test",
	"tune/slot":           "it replaces the process",
	"version":             "what it prints differs with each build",
	"tune/carry":          "it is a hidden command of launch",
}

var exampleWithOutput = regexp.MustCompile(`(?s)\nfunc Example\w*\(\) \{\n.*?\n\t// (Unordered o|O)utput:.*?\n\}`)

// Readers of a package's documentation see how it is used, by code that runs in the tests.
func TestEveryPublicPackageHasAnExample(t *testing.T) {
	r := theRepository(t)
	shown := make(map[string]bool)
	for _, f := range r.files {
		if f.isTest() && !shown[f.folder()] {
			shown[f.folder()] = exampleWithOutput.Match(f.text)
		}
	}
	seen := 0
	for folder := range r.imports(imports.Module) {
		if !public(folder) {
			continue
		}
		seen++
		has := shown[folder]
		if reason := withoutExample[folder]; has == (reason != "") {
			t.Errorf("%s: an example with output is there: %t, want %t; a package without one needs its reason in the table", folder, has, !has)
		}
	}
	if seen < 20 {
		t.Errorf("got %d public packages, want more", seen)
	}
}
