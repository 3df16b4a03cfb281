// Package docs has the tests of the documentation: the commands of each page are run.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/docstest"
	"github.com/paragon-train/paragon/internal/testing/testbuild"
)

// pages are README and the pages of docs, by their names in the repository. Notes on design tell
// how something was measured once.
func pages(t *testing.T) []*docstest.Page {
	t.Helper()
	var all []*docstest.Page
	root := ".."
	read := func(name string) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		p, err := docstest.Parse(name, string(text))
		if err != nil {
			t.Error(err)
		}
		all = append(all, p)
	}
	read("README.md")
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file == "design":
			return filepath.SkipDir
		case strings.HasSuffix(file, ".md"):
			read("docs/" + filepath.ToSlash(file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestCommandsAreRunOrSayWhyNot(t *testing.T) {
	if len(pages(t)) < 10 {
		t.Error("there are fewer than ten pages")
	}
}

// make testdocs runs the commands: they start jobs.
func TestPages(t *testing.T) {
	if os.Getenv("PARAGON_TEST_DOCS") == "" {
		t.Skip("it runs the commands of all pages: make testdocs (PARAGON_TEST_DOCS=1)")
	}
	cfg := docstest.Config{Root: "..", Programs: t.TempDir()}
	testbuild.NeedsWorkspace(t)
	if err := docstest.Build(cfg.Root, cfg.Programs); err != nil {
		t.Fatal(err)
	}
	for _, p := range pages(t) {
		t.Run(strings.TrimSuffix(p.Name, ".md"), func(t *testing.T) { docstest.Run(t, cfg, p) })
	}
}
