package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// decidedByCode are the folders in which nothing is decided by the text of an error or of a reason:
// errors answer errors.Is and errors.As, and reasons are codes with fields
// (internal/member/control).
var decidedByCode = []string{"launch", "schedulernode", "internal/member/scheduler", "server", "kvstore", "worker", "tune"}

// matchers look for text in text.
var matchers = []string{"Contains", "ContainsAny", "HasPrefix", "HasSuffix", "CutPrefix", "CutSuffix", "Cut", "Index", "LastIndex", "EqualFold", "Split", "Fields",
	"MatchString", "FindString", "FindStringSubmatch", "FindAllString", "FindStringIndex"}

// proseNames are what text for people is called.
var proseNames = []string{"reason", "why", "refusal", "failure", "fate"}

// textMatches are the places in a file where text of an error or a reason is looked into.
func textMatches(fset *token.FileSet, f *ast.File) (bad []string) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}

		// prose are the variables that hold such text.
		prose := make(map[string]bool)
		isProse := func(e ast.Expr) bool {
			found := false
			ast.Inspect(e, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Error" && len(n.Args) == 0 {
						found = true
					}
				case *ast.SelectorExpr:
					found = found || slices.Contains(proseNames, strings.ToLower(n.Sel.Name))
				case *ast.Ident:
					found = found || prose[n.Name] || slices.Contains(proseNames, n.Name)
				}
				return !found
			})
			return found
		}
		at := func(n ast.Node, what string) {
			bad = append(bad, fmt.Sprintf("%s: %s looks into the text of an error or a reason; use errors.Is, errors.As or a code of internal/member/control", fset.Position(n.Pos()), what))
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for i, r := range n.Rhs {
					if id, ok := n.Lhs[min(i, len(n.Lhs)-1)].(*ast.Ident); ok {
						if _, made := r.(*ast.CallExpr); made && isProse(r) || prose[id.Name] {
							prose[id.Name] = true
						}
					}
				}
			case *ast.CallExpr:
				s, ok := n.Fun.(*ast.SelectorExpr)
				if ok && slices.Contains(matchers, s.Sel.Name) && len(n.Args) > 0 && isProse(n.Args[0]) {
					at(n, s.Sel.Name)
				}
			case *ast.BinaryExpr:
				if n.Op != token.EQL && n.Op != token.NEQ {
					break
				}
				for _, p := range [][2]ast.Expr{{n.X, n.Y}, {n.Y, n.X}} {
					if text, ok := p[1].(*ast.BasicLit); ok && text.Kind == token.STRING && text.Value != `""` && isProse(p[0]) {
						at(n, "a comparison")
					}
				}
			}
			return true
		})
	}
	return bad
}

// launchersWords are parts of what launch prints. Package tune runs launch and reads its result and
// its JSON, never its sentences.
var launchersWords = []string{"launch:", "worker ", "server ", "lost", "connection to", "failed:", " | "}

// launcherTexts are the places in a file where text is searched for launch's words.
func launcherTexts(fset *token.FileSet, f *ast.File) (bad []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		s, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains(matchers, s.Sel.Name) && s.Sel.Name != "MustCompile" {
			return true
		}
		for _, arg := range call.Args {
			ast.Inspect(arg, func(n ast.Node) bool {
				text, ok := n.(*ast.BasicLit)
				if ok && text.Kind == token.STRING && slices.ContainsFunc(launchersWords, func(w string) bool { return strings.Contains(text.Value, w) }) {
					bad = append(bad, fmt.Sprintf("%s: %s looks for %s, which launch prints; use control.Result and control.Line", fset.Position(n.Pos()), s.Sel.Name, text.Value))
				}
				return true
			})
		}
		return true
	})
	return bad
}

func TestTuneDoesNotReadWhatLaunchPrints(t *testing.T) {
	files := 0
	theRepository(t).code(func(f *sourceFile) {
		files++
		for _, v := range f.launcherTexts {
			t.Error(v)
		}
	}, "tune")
	if files < 50 {
		t.Errorf("only %d files were looked at", files)
	}
	for body, want := range map[string]int{
		"var hostLost = regexp.MustCompile(`connection to (\\S+) lost`)":                                 1,
		`func f() { rank, ok := strings.CutPrefix(name, "worker "); _ = bytes.Cut(line, []byte("| ")) }`: 1,
		`func f() { _ = bytes.Cut(line, []byte(" | ")) }`:                                                1,
		"var memory = regexp.MustCompile(`out of memory`)":                                               0,
		`func f() { fmt.Println("worker ", strings.Cut(line, "=")) }`:                                    0,
	} {
		if got := launcherTexts(parseText(t, "x.go", "package x\n"+body+"\n")); len(got) != want {
			t.Errorf("%s: found %q, want %d", body, got, want)
		}
	}
}

func TestNothingIsDecidedByTheTextOfAnError(t *testing.T) {
	files := 0
	theRepository(t).code(func(f *sourceFile) {
		// Package flag says what is wrong with a flag by its text alone.
		if f.within("launch/internal/flagerr") || f.within("kvstore/kvstoretest") {
			return
		}
		files++
		for _, v := range f.textMatches {
			t.Error(v)
		}
	}, decidedByCode...)
	if files < 100 {
		t.Errorf("only %d files were looked at", files)
	}
}

func TestTextMatchesAreFound(t *testing.T) {
	for body, want := range map[string]int{
		`_ = strings.Contains(err.Error(), "lost")`:                        1,
		`_ = strings.HasPrefix(w.reason, "worker")`:                        1,
		`who, _, _ := strings.Cut(w.reason, " on ")`:                       1,
		`text := err.Error(); _ = strings.Contains(text, "lost")`:          1,
		`_ = lost.FindStringSubmatch(err.Error())`:                         1,
		`_ = e.Reason == "the disk is full"`:                               1,
		`_ = err.Error() != "gone"`:                                        1,
		`_ = e.Reason != ""`:                                               0,
		`text := strings.TrimPrefix(err.Error(), "launch: "); print(text)`: 0,
		`_ = strings.Contains(state, "://")`:                               0,
		`_ = errors.Is(err, ErrLost)`:                                      0,
	} {
		if got := textMatches(parseText(t, "x.go", "package x\nfunc f() {\n"+body+"\n}\n")); len(got) != want {
			t.Errorf("%s: found %q, want %d", body, got, want)
		}
	}
}
