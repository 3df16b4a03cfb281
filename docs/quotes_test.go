package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// quote is a block of Go that a page takes from a file: the file and the lines.
var quote = regexp.MustCompile("(?s)<!-- from: (\\S+) -->\n```go\n(.*?)```\n")

// A page that shows a piece of a program shows what is there: line by line, but for indentation;
// "..." stands for lines that were left out.
func TestQuotedCodeIsThatOfItsFile(t *testing.T) {
	quotes := 0
	for _, p := range pages(t) {
		text, err := os.ReadFile(filepath.Join("..", p.Name))
		if err != nil {
			t.Fatal(err)
		}
		all := quote.FindAllStringSubmatch(string(text), -1)
		if n := strings.Count(string(text), "<!-- from: "); n != len(all) {
			t.Errorf("%s: %d of %d comments from: stand before no block of go", p.Name, n-len(all), n)
		}
		quotes += len(all)
		for _, m := range all {
			code, err := os.ReadFile(filepath.Join("..", m[1]))
			if err != nil {
				t.Errorf("%s: %v", p.Name, err)
			} else if err := quoted(m[2], string(code)); err != nil {
				t.Errorf("%s: what it takes from %s: %v", p.Name, m[1], err)
			}
		}
	}
	if quotes == 0 {
		t.Error("no page takes code from a file: the comment has changed")
	}
}

// quoted says which piece of a block, between lines of "...", is not in the code, or not in this
// order.
func quoted(block, code string) error {
	lines := func(s string) (all []string) {
		for l := range strings.Lines(s) {
			all = append(all, strings.TrimSpace(l))
		}
		return all
	}
	rest, piece := lines(code), []string(nil)
	for _, l := range append(lines(block), "...") {
		if l != "..." {
			piece = append(piece, l)
			continue
		}
		for len(rest) >= len(piece) && !slices.Equal(rest[:len(piece)], piece) {
			rest = rest[1:]
		}
		if len(rest) < len(piece) {
			return fmt.Errorf("there is no\n%s", strings.Join(piece, "\n"))
		}
		rest, piece = rest[len(piece):], nil
	}
	return nil
}

func TestWrongQuotesAreFound(t *testing.T) {
	const code = "a {\n\tb\n\tc\n}\nd\n"
	for block, ok := range map[string]bool{
		"a {\n\tb\n": true, "b\nc\n...\nd\n": true, "a {\n...\nd\n": true, "a {\nc\n": false, "d\n...\na {\n": false, "e\n": false,
	} {
		if err := quoted(block, code); (err == nil) != ok {
			t.Errorf("%q: got error %v, want one: %t", block, err, !ok)
		}
	}
}
