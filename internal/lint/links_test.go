package lint

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	codeSpan  = regexp.MustCompile("(`+)[^`].*?(`+)")
	link      = regexp.MustCompile(`\]\(<?([^()<>\s]+(?:\([^()\s]*\)[^()\s]*)?)>?(?: "[^"]*")?\)`)
	reference = regexp.MustCompile(`^ {0,3}\[[^\]]+\]: +<?([^\s>]+)`)
	source    = regexp.MustCompile(`<(?:img|a|source)\b[^>]*\b(?:src|href|srcset)="([^"]+)"`)
	heading   = regexp.MustCompile(`^ {0,3}#{1,6} +(.*?)(?: +#+)? *$`)
	named     = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	linkText  = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	// documentName is a page that code or text names by its path in the repository.
	documentName = regexp.MustCompile(`(?:^|[^\w./-])(docs/[\w/.-]+\.md)\b`)
)

// A markdownPage is what other pages need to know of a page, and what it needs of them.
type markdownPage struct {
	anchors []string
	links   []linkAt
}

type linkAt struct {
	line   int
	target string
}

// readMarkdown finds the links and the anchors of a page, as GitHub shows it. Code has none.
func readMarkdown(text string) (p markdownPage) {
	seen := map[string]int{}
	fence := ""
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		if fence != "" {
			if strings.HasPrefix(trimmed, fence) && strings.Trim(trimmed, "`~") == "" {
				fence = ""
			}
			continue
		}
		if strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~") {
			fence = trimmed[:3]
			continue
		}
		if m := heading.FindStringSubmatch(line); m != nil {
			a := slug(m[1])
			n := seen[a]
			if seen[a]++; n > 0 {
				a = fmt.Sprintf("%s-%d", a, n)
			}
			p.anchors = append(p.anchors, a)
		}
		line = codeSpan.ReplaceAllString(line, "x")
		for _, m := range named.FindAllStringSubmatch(line, -1) {
			p.anchors = append(p.anchors, m[1])
		}
		for _, e := range []*regexp.Regexp{link, reference, source} {
			for _, m := range e.FindAllStringSubmatch(line, -1) {
				p.links = append(p.links, linkAt{i + 1, m[1]})
			}
		}
	}
	return p
}

// slug is the anchor of a heading.
func slug(heading string) string {
	heading = linkText.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// badLinks are the links of a page, name, that lead nowhere. page reads another page and is false
// if there is none; exists reports whether there is a file or a folder.
func badLinks(name string, p markdownPage, page func(name string) (markdownPage, bool), exists func(name string) bool) (bad []string) {
	for _, l := range p.links {
		target, anchor, _ := strings.Cut(l.target, "#")
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		at := fmt.Sprintf("%s:%d: %s", name, l.line, l.target)
		of, known := p, true
		if target != "" {
			file := path.Join(path.Dir(name), target)
			if strings.HasPrefix(file, "..") || strings.HasPrefix(target, "/") {
				bad = append(bad, at+" leads out of the repository: want a relative path, or an address with https://")
				continue
			}
			if !exists(file) {
				bad = append(bad, at+": there is no "+file)
				continue
			}
			of, known = page(file)
		}
		if anchor != "" && known && !slices.Contains(of.anchors, anchor) {
			bad = append(bad, fmt.Sprintf("%s: there is no such heading; there are %s", at, strings.Join(of.anchors, ", ")))
		}
	}
	return bad
}

func TestLinksLeadSomewhere(t *testing.T) {
	pages := map[string]markdownPage{}
	var names []string
	page := func(name string) (markdownPage, bool) {
		if !strings.HasSuffix(name, ".md") {
			return markdownPage{}, false
		}
		p, ok := pages[name]
		if !ok {
			text, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				t.Error(err)
			}
			p = readMarkdown(string(text))
			pages[name] = p
		}
		return p, true
	}
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, name))
		return err == nil
	}
	for _, f := range theRepository(t).files {
		name := f.name
		if f.isTestdata() {
			continue
		}
		if strings.HasSuffix(name, ".md") {
			names = append(names, name)
		}
		if ext := path.Ext(name); !slices.Contains([]string{".md", ".go", ".sh", ".yml", ".yaml", ""}, ext) || name == "internal/lint/links_test.go" {
			continue
		}
		if !bytes.Contains(f.text, []byte("docs/")) {
			continue
		}
		for _, m := range documentName.FindAllSubmatch(f.text, -1) {
			if !exists(string(m[1])) {
				t.Errorf("%s names %s, which there is not", name, m[1])
			}
		}
	}
	links := 0
	for _, name := range names {
		p, _ := page(name)
		links += len(p.links)
		for _, b := range badLinks(name, p, page, exists) {
			t.Error(b)
		}
	}
	for _, name := range unlisted(pages) {
		t.Errorf("no index leads to %s: name it in docs/README.md, or in the README.md of its folder", name)
	}
	if links < 100 {
		t.Errorf("only %d links were found", links)
	}
}

// unlisted are the pages of docs to which no index leads: docs/README.md, and the README.md of a
// folder that it names.
func unlisted(pages map[string]markdownPage) (names []string) {
	listed := map[string]bool{"docs/README.md": true}
	for again := true; again; {
		again = false
		for index := range pages {
			if !listed[index] || !strings.HasPrefix(index, "docs/") || path.Base(index) != "README.md" {
				continue
			}
			for _, l := range pages[index].links {
				target, _, _ := strings.Cut(l.target, "#")
				if name := path.Join(path.Dir(index), target); !listed[name] {
					listed[name], again = true, true
				}
			}
		}
	}
	for name := range pages {
		if strings.HasPrefix(name, "docs/") && !strings.HasPrefix(name, "docs/design/") && !listed[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestUnlistedPagesAreFound(t *testing.T) {
	page := func(targets ...string) (p markdownPage) {
		for _, target := range targets {
			p.links = append(p.links, linkAt{1, target})
		}
		return p
	}
	names := unlisted(map[string]markdownPage{
		"README.md": page("docs/b.md"), "docs/README.md": page("a.md#x", "t/README.md"), "docs/a.md": page("b.md"), "docs/b.md": page(),
		"docs/t/README.md": page("1.md", "../../README.md"), "docs/t/1.md": page("2.md"), "docs/t/2.md": page(), "docs/design/1.md": page(),
	})
	if strings.Join(names, " ") != "docs/b.md docs/t/2.md" {
		t.Errorf("got %q, want docs/b.md and docs/t/2.md", names)
	}
}

func TestBadLinksAreFound(t *testing.T) {
	const text = "# One page\n## `launch ctl`: what's *new*?\n## Twice\n## Twice\n## [A link](other.md) to it\n<a id=\"here\"></a>\n" +
		"```\n# no heading, [no link](nowhere)\n```\n`[code](nowhere)`\n"
	other := readMarkdown("# Other\n")
	for target, want := range map[string]int{
		"#one-page": 0, "#launch-ctl-whats-new": 0, "#twice": 0, "#twice-1": 0, "#twice-2": 1, "#a-link-to-it": 0, "#here": 0, "#no-heading-no-link": 1,
		"other.md": 0, "other.md#other": 0, "other.md#others": 1, "../docs/other.md#other": 0, "another.md": 1, "../../x": 1, "/etc": 1,
		"../main.go#L3": 0, "https://example.com/x#y": 0, "mailto:a@example.com": 0,
	} {
		for _, form := range []string{"see [this](%s).", "![picture](%s \"title\")", "[this]: %s", "<img src=\"%s\">", "see [`this`](%s), [that](https://example.com)"} {
			p := readMarkdown(text + fmt.Sprintf(form, target) + "\n")
			bad := badLinks("docs/page.md", p, func(name string) (markdownPage, bool) { return other, name == "docs/other.md" },
				func(name string) bool { return slices.Contains([]string{"docs/other.md", "main.go", "docs"}, name) })
			if len(bad) != want {
				t.Errorf(form+": found %q, want %d", target, bad, want)
			}
		}
	}
}
