package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/troubleshooting.md is found by the text of a message, so it has to have that text.

// placeholder is what a message of the page has where something is filled in.
var placeholder = regexp.MustCompile(`<[^<>]+>`)

// shortest is how many bytes a piece of a message must have to be looked up: shorter ones are
// everywhere.
const shortest = 8

// hasMessage reports whether all that is fixed in a message is in the source: each piece between
// placeholders within one literal or, where one message is the cause of another, cut at a colon or
// a semicolon.
func (s *sourceText) hasMessage(message string) bool {
	found := 0
	var has func(piece string) bool
	has = func(piece string) bool {
		piece = strings.Trim(piece, " :;,")
		if len(piece) < shortest {
			return true
		}
		if strings.Contains(s.literals.String(), piece) {
			found++
			return true
		}
		for _, between := range []string{": ", "; "} {
			if a, b, ok := strings.Cut(piece, between); ok && has(a) && has(b) {
				return true
			}
		}
		return false
	}
	for _, piece := range placeholder.Split(message, -1) {
		if !has(piece) {
			return false
		}
	}
	return found > 0
}

// messagesOf are those in the first columns of a page's tables whose head is "you see".
func messagesOf(page string) (messages []string) {
	within := false
	for line := range strings.Lines(page) {
		first, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		switch {
		case !strings.HasPrefix(line, "| ") || !ok:
			within = false
		case first == "you see":
			within = true
		case within && !strings.HasPrefix(first, "---"):
			messages = append(messages, strings.Trim(first, "`"))
		}
	}
	return messages
}

func TestMessagesOfTheTroubleshootingPageAreInTheCode(t *testing.T) {
	s := theRepository(t).source
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	messages := messagesOf(string(page))
	if len(messages) < 100 {
		t.Errorf("got %d messages, want 100 and more", len(messages))
	}
	seen := make(map[string]bool)
	for _, m := range messages {
		if !s.hasMessage(m) {
			t.Errorf("docs/troubleshooting.md: no message of the code reads %q", m)
		}
		if seen[m] {
			t.Errorf("docs/troubleshooting.md: %q is there twice", m)
		}
		seen[m] = true
	}
}

func TestMessagesThatAreNotInTheCodeAreFound(t *testing.T) {
	s := newSourceText()
	s.literals.WriteString(strings.Join([]string{
		"start: after " + hole + " still waiting for " + hole,
		hole + " lost: " + hole,
		"no heartbeat for " + hole,
		`key "` + hole + `": the file holds ` + hole,
	}, "\n"))
	for message, want := range map[string]bool{
		"start: after <TIME> still waiting for <WHO>": true,
		"start: after <TIME> we wait for <WHO>":       false,
		"lost: no heartbeat for <TIME>":               true,
		"lost: no heart beat for <TIME>":              false,
		`key "<NAME>": the file holds <WHAT>`:         true,
		"<WHO>: <WHAT>":                               false,
	} {
		if got := s.hasMessage(message); got != want {
			t.Errorf("%s: got %v, want %v", message, got, want)
		}
	}
	page := "| you see | it means |\n| --- | --- |\n| `a b` | x |\n| `c <D>` | y |\n\n| else | z |\n| `e` | w |\n"
	if got := strings.Join(messagesOf(page), ","); got != "a b,c <D>" {
		t.Errorf("got the messages %q, want those of the first table", got)
	}
}
