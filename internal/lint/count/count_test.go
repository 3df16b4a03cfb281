package count

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write makes a folder of the files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestLinesAreCountedByWhatTheyHave(t *testing.T) {
	text := "// Package a is commented.\n" +
		"package a\n" +
		"\n" +
		"/* Two\nlines. */\n" +
		"var x = 1 // six words are not too many\n" +
		"var y = 2 // but seven words are one too many\n" +
		"var z = `raw // no comment\n\nend`\n" +
		"var w /* between */ = 3\n"
	want := Lines{Code: 7, Comment: 3, Blank: 1, Trailing: 2, LongTrailing: 1}
	if diff := cmp.Diff(want, countLines([]byte(text))); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if got := want.Share(); got != 0.3 {
		t.Errorf("got a comment share of %v, want 0.3", got)
	}
}

// example has two packages, of which the first is of three files.
var example = map[string]string{
	"a/a.go": "package a\n\nimport \"m/b\"\n\ntype T struct {\n\tx, y int\n\tb.B\n}\n\nfunc (t *T) One() { t.two() }\n",
	"a/b.go": "package a\n\nimport \"elsewhere\"\n\nfunc (t T) two() int {\n\tif t.x > 0 {\n\t\tfor range 3 {\n\t\t}\n\t} else if t.y > 0 {\n\t\treturn three(1, 2)\n\t}\n\treturn elsewhere.F()\n}\n",
	"a/c.go": "package a\n\nfunc three(x, y int) int { return x + y }\n\ntype Many interface {\n\tOne()\n\tTwo()\n}\n",

	// Another system's file declares the same once more.
	"a/c_windows.go": "package a\n\nfunc (t T) two() int { return 0 }\n",
	"a/a_test.go":    "package a\n\n// A test.\n",
	"b/b.go":         "package b\n\nimport \"m/a/deep\"\n\ntype B struct{}\n",
	"a/deep/deep.go": "package deep\n",
	"bin/x.go":       "not go",
}

func TestTypesFunctionsAndArrowsAreCounted(t *testing.T) {
	tree, err := Read(write(t, example), "m/")
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Packages) != 3 {
		t.Fatalf("got %d packages, want 3", len(tree.Packages))
	}
	a := tree.Packages[0]
	if diff := cmp.Diff([]Type{{"a.Many", 2, 0}, {"a.T", 2, 3}}, a.Types); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
	want := []Function{
		{"T.One", "a/a.go:10", 1, 1, 0}, {"T.two", "a/b.go:5", 9, 3, 0}, {"three", "a/c.go:3", 1, 1, 2}, {"T.two", "a/c_windows.go:3", 1, 1, 0},
	}
	if diff := cmp.Diff(want, a.Functions); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}

	// a uses b's method two and b uses a's T; b uses c's function.
	if got := a.Arrows; got.All != 3 || got.BackUp != 1 || got.Mutual != 2 {
		t.Errorf("got %+v, want 3 arrows, 1 back up, 2 mutual", got)
	}
	if a.Tests.All() != 3 || a.Code.Code == 0 {
		t.Errorf("got code %+v and tests %+v, want 3 lines of tests", a.Code, a.Tests)
	}
}

func TestRoomsNameTheImportsThatRunBackUp(t *testing.T) {
	tree, err := Read(write(t, example), "m/")
	if err != nil {
		t.Fatal(err)
	}
	arrows, rooms, backUp := tree.Rooms(func(pkg string) string { return pkg[:1] })
	if arrows.All != 2 || !slices.Equal(rooms, []string{"a", "b"}) || !slices.Equal(backUp, []string{"b → a/deep"}) {
		t.Errorf("got %+v, rooms %v, back up %v", arrows, rooms, backUp)
	}
}

func TestTablesOfOneTreeAreTheSame(t *testing.T) {
	root := write(t, example)
	var tables [2]string
	for i := range tables {
		tree, err := Read(root, "m/")
		if err != nil {
			t.Fatal(err)
		}
		tables[i] = tree.Table(func(pkg string) string { return pkg[:1] }, false)
	}
	if diff := cmp.Diff(tables[0], tables[1]); diff != "" {
		t.Errorf("the tables differ:\n%s", diff)
	}
	for _, row := range []string{"| a | ", "| a.T | 2 | 3 |", "| T.two | a/b.go:5 |", "- b → a/deep\n"} {
		if row != "| T.two | a/b.go:5 |" != strings.Contains(tables[0], row) {
			t.Errorf("%q: a row that is missing, or of a function that is not long:\n%s", row, tables[0])
		}
	}
}

func TestListsAreShortUnlessAllIsAskedFor(t *testing.T) {
	var text strings.Builder
	text.WriteString("package a\n")
	for i := range shortList + 1 {
		fmt.Fprintf(&text, "type T%02d struct{ x int }\n", i)
	}
	tree, err := Read(write(t, map[string]string{"a/a.go": text.String()}), "m/")
	if err != nil {
		t.Fatal(err)
	}
	for all, want := range map[bool]int{false: shortList, true: shortList + 1} {
		if got := strings.Count(tree.Table(func(string) string { return "a" }, all), "| a.T"); got != want {
			t.Errorf("all %v: got %d types, want %d", all, got, want)
		}
	}
}
