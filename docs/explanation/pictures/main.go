// Command pictures draws the pictures of docs/explanation: the packages and what they import, from
// the source, and the steps that architecture.md lists, as sequences. go generate runs it; a test
// fails when a picture is stale.
package main

//go:generate go run .

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/paragon-train/paragon/internal/testing/imports"
)

func main() {
	pictures, err := draw(filepath.Join("..", "..", ".."))
	for _, name := range slices.Sorted(maps.Keys(pictures)) {
		if err == nil {
			err = os.WriteFile(filepath.Join("..", name), pictures[name], 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// draw returns the pictures by file name. root is the folder of the repository.
func draw(root string) (map[string][]byte, error) {
	imported, err := imports.Read(root, imports.Module)
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "explanation", "architecture.md"))
	if err != nil {
		return nil, err
	}
	sequences, err := readSequences(string(page))
	if err != nil {
		return nil, fmt.Errorf("architecture.md: %w", err)
	}
	pictures := map[string][]byte{"packages.svg": drawPackages(imported)}
	for _, s := range sequences {
		pictures[s.file] = s.draw()
	}
	return pictures, nil
}
