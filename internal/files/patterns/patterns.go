// Package patterns matches names of parameters by lists of patterns, and renames them.
//
// A pattern is as path.Match takes it: "*" is any text without a slash, "?" one character, "[ab]"
// one of those. A pattern that begins with "!" takes names out again that an earlier one of the
// list has taken: "*", "!fc.*" is all but fc.
package patterns

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// A List is a list of patterns. The last one that matches a name decides.
type List struct {
	patterns []string

	// used says of each pattern whether it has matched a name.
	used []bool
}

// New checks the patterns; what is their name in errors.
func New(what string, patterns []string) (*List, error) {
	for i, p := range patterns {
		if err := check(strings.TrimPrefix(p, "!")); err != nil {
			return nil, fmt.Errorf("%s[%d] is %q, want a name or a pattern such as \"layer1.*\": %w", what, i, p, err)
		}
	}
	return &List{patterns, make([]bool, len(patterns))}, nil
}

func check(pattern string) error {
	if pattern == "" {
		return fmt.Errorf("it is empty")
	}
	_, err := path.Match(pattern, "")
	return err
}

// Match reports whether the list takes a name.
func (l *List) Match(name string) (taken bool) {
	for i, p := range l.patterns {
		text, not := strings.CutPrefix(p, "!")
		if ok, _ := path.Match(text, name); ok {
			l.used[i], taken = true, !not
		}
	}
	return taken
}

// Unused are the patterns that no name has matched so far.
func (l *List) Unused() (unused []string) {
	for i, p := range l.patterns {
		if !l.used[i] {
			unused = append(unused, p)
		}
	}
	return unused
}

// A Renaming gives names that match a pattern other names.
type Renaming struct {
	// Text is the pattern as it was given.
	Text string

	from *regexp.Regexp
	to   string
}

// NewRenaming reads a rule "OLD=NEW". Each "*" of NEW stands for what the "*" of the same place in
// OLD matched, as in "backbone.*=*".
func NewRenaming(rule string) (*Renaming, error) {
	from, to, ok := strings.Cut(rule, "=")
	switch {
	case !ok || from == "" || to == "":
		return nil, fmt.Errorf("got %q, want OLD=NEW, such as \"backbone.*=*\"", rule)
	case strings.Count(to, "*") > strings.Count(from, "*"):
		return nil, fmt.Errorf("got %q with more \"*\" behind the \"=\" than before it", rule)
	case strings.ContainsAny(from, `?[]\`) || strings.ContainsAny(to, `?[]\`):
		return nil, fmt.Errorf("got %q, want no other wildcard than \"*\" in it", rule)
	}
	text := "^" + strings.ReplaceAll(regexp.QuoteMeta(from), `\*`, "([^/]*)") + "$"
	return &Renaming{rule, regexp.MustCompile(text), to}, nil
}

// Rename returns the new name; false if the rule is not for this one.
func (r *Renaming) Rename(name string) (string, bool) {
	found := r.from.FindStringSubmatch(name)
	if found == nil {
		return name, false
	}
	var b strings.Builder
	next := 1
	for part := range strings.SplitSeq(r.to, "*") {
		if b.WriteString(part); next < len(found) && next <= strings.Count(r.to, "*") {
			b.WriteString(found[next])
		}
		next++
	}
	return b.String(), true
}
