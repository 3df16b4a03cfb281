package job

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The files of the shell, and of what the caller sees, may do what they like. All others are the
// core's.
var notCore = []string{"config.go", "control.go", "elasticoptions.go", "environment.go", "repeat.go", "run.go", "shell.go", "shell_hosts.go", "shell_machines.go", "shell_processes.go"}

// What the core may use of packages that can do more.
var pureNames = map[string][]string{
	"time":     {"Duration", "Time", "Millisecond", "Second", "Minute"},
	"net":      {"SplitHostPort", "JoinHostPort", "ParseIP"},
	"os":       {"Signal"},
	"log/slog": {"Attr", "Level", "LevelInfo", "LevelWarn", "LevelError"},
	"syscall":  {"Signal", "SIGTERM", "SIGUSR1", "SIGKILL"},
	"bytes":    nil, "cmp": nil, "errors": nil, "fmt": nil, "maps": nil, "slices": nil, "strconv": nil, "strings": nil, "text/tabwriter": nil, "unicode": nil, "unicode/utf8": nil,
}

// The core has no clock, starts nothing, waits for nothing, and neither reads nor writes.
func TestTheCoreIsPure(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || slices.Contains(notCore, name) {
			continue
		}
		looked++
		for _, what := range impurities(t, name, nil) {
			t.Errorf("%s: %s", name, what)
		}
	}
	if looked < 15 {
		t.Errorf("looked at %d files, want those of the core", looked)
	}
	for _, src := range []string{
		"import \"time\"; func f() { _ = time.Now() }", "import \"context\"; var _ context.Context", "import \"os\"; func f() { os.Exit(1) }",
		"func f() { go f() }", "func f(c chan int) { <-c }", "func f() { select {} }", "import \"sync\"; var mu sync.Mutex",
	} {
		if len(impurities(t, "x.go", "package x; "+src)) == 0 {
			t.Errorf("%s: want an impurity", src)
		}
	}
}

func impurities(t *testing.T, name string, src any) (found []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	imported := make(map[string]string)
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		_, known := pureNames[path]
		if !known && !strings.HasPrefix(path, "github.com/paragon-train/paragon/") {
			found = append(found, "imports "+path)
		}
		imported[filepath.Base(path)] = path
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, "starts a goroutine")
		case *ast.SelectStmt, *ast.ChanType, *ast.SendStmt:
			found = append(found, "has a channel")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				if names := pureNames[imported[x.Name]]; names != nil && !slices.Contains(names, n.Sel.Name) {
					found = append(found, "uses "+x.Name+"."+n.Sel.Name)
				}
			}
		}
		return true
	})
	return found
}
