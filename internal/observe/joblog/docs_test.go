package joblog

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A documented event is a row of the table in docs/reference/log-events.md.
type documented struct {
	levels, writers []string
	attrs           []string // "node_*" stands for those of Event.Of
	meaning, action string
}

const documentName = "docs/reference/log-events.md"

// documentedEvents reads the table.
func documentedEvents(t *testing.T, root string) map[string]documented {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, documentName))
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]documented)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 8 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		words := func(s string) (all []string) {
			for _, w := range strings.Split(s, ",") {
				if w = strings.Trim(strings.TrimSpace(w), "`"); w != "" {
					all = append(all, w)
				}
			}
			return all
		}
		code := strings.Trim(cells[1], "`")
		if _, twice := rows[code]; twice {
			t.Errorf("%s has %s twice", documentName, code)
		}
		rows[code] = documented{words(cells[2]), words(cells[3]), words(cells[4]), cells[5], cells[6]}
	}
	return rows
}

// constants are the events of event.go by their names in Go.
func constants(t *testing.T) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	codes := make(map[string]string)
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != "Event" {
			return true
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("%s is %q, want small letters and _", spec.Names[0].Name, code)
		}
		if spec.Doc.Text()+spec.Comment.Text() == "" {
			t.Errorf("%s has no comment", spec.Names[0].Name)
		}
		codes[spec.Names[0].Name] = code
		return true
	})
	return codes
}

// A use is what the code does with an event.
type use struct{ attrs, writers, levels map[string]bool }

// ofNode are the attributes of Event.Of.
var ofNode = []string{"node_role", "node_rank", "node_host", "node_process"}

// levelOf is the level of lines by the method that writes them.
var levelOf = map[string]string{"Debug": "DEBUG", "Info": "INFO", "Warn": "WARN", "Error": "ERROR", "info": "INFO", "warn": "WARN", "error": "ERROR", "note": "INFO"}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// writersOf says which roles run the code of a folder; "any" is every role.
var writersOf = map[string]string{
	"internal/member/scheduler": "scheduler", "launch/internal/job": "launcher", "launch/internal/command/run": "launcher", "internal/member/servernode": "server", "internal/store/shardserver": "server", "worker": "worker", "kvstore": "worker",
	"internal/member/cluster": "any", "internal/store/transport": "any", "internal/observe/joblog": "launcher",
}

// uses finds the events in the code, and the attributes that they are given there.
func uses(t *testing.T, root string, codes map[string]string) map[string]*use {
	t.Helper()
	found := make(map[string]*use)
	for folder, writer := range writersOf {
		files, err := fs.Glob(os.DirFS(filepath.Join(root, folder)), "*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, folder, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			// event is the event that an expression makes; nil: none.
			event := func(e ast.Expr) (*use, []string) {
				call, ok := e.(*ast.CallExpr)
				if !ok {
					return nil, nil
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || method.Sel.Name != "With" && method.Sel.Name != "Of" {
					return nil, nil
				}
				constant := ""
				switch x := method.X.(type) {
				case *ast.SelectorExpr:
					if p, ok := x.X.(*ast.Ident); ok && p.Name == "joblog" {
						constant = x.Sel.Name
					}
				case *ast.Ident:
					if folder == "internal/observe/joblog" {
						constant = x.Name
					}
				}
				code, ok := codes[constant]
				if !ok {
					return nil, nil
				}
				u := found[code]
				if u == nil {
					u = &use{make(map[string]bool), make(map[string]bool), make(map[string]bool)}
					found[code] = u
				}
				u.writers[writer] = true
				var keys []string
				args := call.Args
				if method.Sel.Name == "Of" {
					for _, name := range ofNode {
						u.attrs[name] = true
						keys = append(keys, name)
					}
					args = args[1:]
				}
				for i := 0; i < len(args); i += 2 {
					key, ok := literal(args[i])
					if !ok || apart(slog.Attr{Key: key}).Key != key {
						t.Errorf("%s/%s: %s: the name of attribute %d is no literal, or is one that every line has", folder, name, constant, i/2)
						continue
					}
					u.attrs[key] = true
					keys = append(keys, key)
				}
				return u, keys
			}
			// line takes the arguments of a line.
			line := func(args []ast.Expr, method string) {
				for _, arg := range args {
					u, keys := event(arg)
					if u == nil {
						continue
					}
					if level := levelOf[method]; level != "" {
						u.levels[level] = true
					}
					for i := 0; i < len(args); i++ {
						if key, ok := literal(args[i]); ok && (i > 0 || method == "") {
							key = apart(slog.Attr{Key: key}).Key
							if slices.Contains(keys, key) {
								t.Errorf("%s/%s: a line has the attribute %s twice", folder, name, key)
							}
							u.attrs[key] = true
							i++ // its value
						}
					}
				}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					if method, ok := n.Fun.(*ast.SelectorExpr); ok {
						line(n.Args, method.Sel.Name)
					}
				case *ast.CompositeLit:
					line(n.Elts, "")
				case *ast.AssignStmt:
					if to, ok := n.Lhs[0].(*ast.SelectorExpr); ok && to.Sel.Name == "Event" {
						if u, _ := event(n.Rhs[0]); u != nil {
							if c, ok := to.X.(*ast.CallExpr); ok {
								u.levels[levelOf[c.Fun.(*ast.SelectorExpr).Sel.Name]] = true
							}
						}
					} else {
						event(n.Rhs[0])
					}
				case *ast.ReturnStmt:
					for _, e := range n.Results {
						event(e)
					}
				}
				return true
			})
		}
	}
	return found
}

// The table that operators read, the constants and what the code does are the same.
func TestEventsAreDocumented(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	codes, rows := constants(t), documentedEvents(t, root)
	used := uses(t, root, codes)
	if len(codes) < 30 {
		t.Fatalf("found %d events in event.go, want them all", len(codes))
	}
	seen := make(map[string]bool)
	for constant, code := range codes {
		if seen[code] {
			t.Errorf("the code %s is there twice", code)
		}
		seen[code] = true
		row, ok := rows[code]
		if !ok {
			t.Errorf("%s has no row in %s", code, documentName)
			continue
		}
		u, ok := used[code]
		if !ok {
			t.Errorf("%s (%s) is written nowhere; remove it", constant, code)
			continue
		}
		for l := range u.levels {
			if !slices.Contains(row.levels, l) {
				t.Errorf("%s: %s: the levels lack %s", documentName, code, l)
			}
		}
		for _, l := range row.levels {
			if !slices.Contains([]string{"DEBUG", "INFO", "WARN", "ERROR"}, l) {
				t.Errorf("%s: %s: level %q is none", documentName, code, l)
			}
		}
		if row.meaning == "" || row.action == "" || len(row.levels) == 0 {
			t.Errorf("%s: %s: a cell is empty", documentName, code)
		}
		same(t, code, "writers", row.writers, u.writers)
		same(t, code, "attributes", row.attrs, u.attrs)
	}
	for code := range rows {
		if !seen[code] {
			t.Errorf("%s has %s, which is no event", documentName, code)
		}
	}
}

func same(t *testing.T, code, what string, documented []string, used map[string]bool) {
	t.Helper()
	if i := slices.Index(documented, "node_*"); i >= 0 {
		documented = slices.Concat(documented[:i], ofNode, documented[i+1:])
	}
	for name := range used {
		if !slices.Contains(documented, name) {
			t.Errorf("%s: %s: %s lacks %s", documentName, code, what, name)
		}
	}
	for _, name := range documented {
		if !used[name] {
			t.Errorf("%s: %s: %s has %s, which the code does not write", documentName, code, what, name)
		}
	}
}
