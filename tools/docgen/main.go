// Command docgen writes the parts of docs/reference that a program can write: `make docs` runs it.
//
// A page has regions between two comments, and docgen replaces what is between them:
//
//	<!-- docgen: commands launch -->      all commands and flags of a program, from what it prints for --help
//	<!-- docgen: environment job -->      a group of the table of environment variables, environment.go
//	<!-- docgen: fields checkpoint Manifest -->      the JSON fields of a struct, by its package's folder and name, from its source
//	<!-- docgen: constants internal/member/control Code Failure -->      the values of a type's constants; of the struct's fields they speak
//	<!-- end of docgen -->
//
// Tests fail if a page is not what it would write.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	root := flag.String("root", ".", "the repository")
	bin := flag.String("bin", "bin", "folder of the programs, built before")
	flag.Parse()
	g := generator{root: *root, bin: *bin}
	if err := g.pages(false); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

// A generator writes regions.
type generator struct {
	// root is the repository's folder.
	root string

	// bin is the folder of the programs; empty: regions of commands stay as they are.
	bin string
}

// reference is the folder of the pages.
const reference = "docs/reference"

// pages writes all pages anew; check: it says which would change.
func (g generator) pages(check bool) error {
	files, err := filepath.Glob(filepath.Join(g.root, reference, "*.md"))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		old, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		now, err := g.page(old)
		name := reference + "/" + filepath.Base(file)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		case bytes.Equal(old, now):
		case check:
			errs = append(errs, fmt.Errorf("%s is not what the program makes: make docs writes it; %s", name, firstDifference(string(old), string(now))))
		default:
			errs = append(errs, os.WriteFile(file, now, 0o644))
		}
	}
	return errors.Join(errs...)
}

// firstDifference names the first line that differs. The texts must differ.
func firstDifference(old, now string) string {
	was, is := strings.Split(old, "\n"), strings.Split(now, "\n")
	for i := 0; ; i++ {
		switch {
		case i == len(was):
			return fmt.Sprintf("line %d is new: %q", i+1, is[i])
		case i == len(is) || was[i] != is[i]:
			return fmt.Sprintf("line %d is %q, want %q", i+1, was[i], strings.Join(is[i:min(i+1, len(is))], ""))
		}
	}
}

// region is what docgen writes between two comments of a page. The first comment says what.
var region = regexp.MustCompile(`(?s)(<!-- docgen: ([^\n]*?) -->\n)(.*?)(<!-- end of docgen -->)`)

// page is a page with its regions written anew.
func (g generator) page(text []byte) ([]byte, error) {
	if begins, all := bytes.Count(text, []byte("<!-- docgen:")), region.FindAllIndex(text, -1); begins != len(all) {
		return nil, fmt.Errorf("%d regions of docgen begin and %d end", begins, len(all))
	}
	var errs []error
	text = region.ReplaceAllFunc(text, func(r []byte) []byte {
		m := region.FindSubmatch(r)
		words := strings.Fields(string(m[2]))
		if words[0] == "commands" && g.bin == "" {
			return r
		}
		body, err := g.region(words)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m[2], err))
			return r
		}
		return []byte(string(m[1]) + body + string(m[4]))
	})
	return text, errors.Join(errs...)
}

// region is the text of one: its words name the kind and what it is about.
func (g generator) region(words []string) (string, error) {
	switch {
	case words[0] == "commands" && len(words) >= 2:
		return g.commands(words[1:])
	case words[0] == "environment" && len(words) == 2:
		return environment(words[1])
	case words[0] == "fields" && len(words) == 3:
		return g.fields(words[1], words[2])
	case words[0] == "constants" && len(words) == 3:
		return g.constants(words[1], words[2], "")
	case words[0] == "constants" && len(words) == 4:
		return g.constants(words[1], words[2], words[3])
	}
	return "", errors.New("want commands PROGRAM..., environment GROUP, fields FOLDER TYPE or constants FOLDER TYPE [STRUCT]")
}

// cell is text for a cell of a table.
func cell(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(s)
}
