package lint

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/lint/count"
	"github.com/paragon-train/paragon/internal/testing/imports"
)

// The flags choose the tree that is counted, and what of the figures is written to which file.
var (
	countedTree = flag.String("tree", root, "folder of the tree that TestCountTree counts")
	countTable  = flag.String("table", "", "file that TestCountTree writes its table into; none: the test is skipped")
	countAll    = flag.Bool("all", false, "TestCountTree lists all types, functions and packages, not only the largest")
)

// TestCountTree writes the figures that compare trees. Nothing fails on them.
func TestCountTree(t *testing.T) {
	if *countTable == "" {
		t.Skip("no -table")
	}
	tree, err := count.Read(*countedTree, imports.Module)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*countTable, []byte(tree.Table(countedRoom, *countAll)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// countedRoom is a package's room in the picture. In a tree with other folders, each folder at the
// top or in internal that the picture does not have is a room.
func countedRoom(pkg string) string {
	if _, room, ok := imports.RoomOf(pkg); ok {
		return room.Name
	}
	parts := strings.Split(pkg, "/")
	switch {
	case imports.OfTests(pkg) || parts[0] == "tools" || parts[0] == "docs" || strings.HasPrefix(pkg, "internal/tools") || strings.HasPrefix(pkg, "internal/lint"):
		return ""
	case parts[0] == "internal" && len(parts) > 1:
		return strings.Join(parts[:2], "/")
	}
	return parts[0]
}
