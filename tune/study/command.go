package study

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/paragon-train/paragon/tune"
)

// A command is a list of words, or one text. A text with shell syntax runs in /bin/sh; else it is split at spaces.
type command struct {
	list []string
	text string
}

func (c *command) read(r *reader, n *yaml.Node, field string) {
	if n.Kind == yaml.ScalarNode {
		r.scalar(n, field, settable(&c.text))
		return
	}
	for i, e := range r.list(n, field) {
		if e.Kind != yaml.ScalarNode {
			r.bad(e, fmt.Sprintf("%s[%d]", field, i), "got %s, want a word", what(e))
			continue
		}
		c.list = append(c.list, e.Value)
	}
}

// shellSyntax is what a text must have to be for a shell. Braces are ours.
const shellSyntax = "'\"\\$`;&|<>()*?[]~#!\n"

// shell says whether the command runs in a shell.
func (c command) shell() bool { return strings.ContainsAny(c.text, shellSyntax) }

// words are the words of the command, before parameters are filled in.
func (c command) words() []string {
	switch {
	case c.list != nil:
		return slices.Clone(c.list)
	case c.shell():
		return []string{"/bin/sh", "-c", c.text}
	}
	return strings.Fields(c.text)
}

// hole is {name}; {{ and }} are braces.
var hole = regexp.MustCompile(`\{\{|\}\}|\{[A-Za-z_][A-Za-z0-9_.-]*\}`)

// names are the parameters that the command names.
func (c command) names() []string {
	var names []string
	for _, w := range c.words() {
		for _, h := range hole.FindAllString(w, -1) {
			if h != "{{" && h != "}}" {
				names = append(names, h[1:len(h)-1])
			}
		}
	}
	return names
}

// check says what is wrong with the command for a space.
func (c command) check(s tune.Space, flags bool) error {
	if len(c.words()) == 0 {
		return fmt.Errorf("it is empty: want the command of a trial, such as ./train --lr {lr}")
	}
	var known []string
	for _, p := range s {
		known = append(known, p.Name)
	}
	names := c.names()
	for _, n := range names {
		if !slices.Contains(known, n) {
			return fmt.Errorf("it has {%s}, but the space has no such parameter, only %s; a brace is written {{ or }}", n, list(known))
		}
	}
	if len(names) == 0 && !flags {
		return nil
	}
	if len(names) == 0 {
		if c.shell() {
			return fmt.Errorf("it has shell syntax and names no parameter: write {%s} where its value belongs", strings.Join(known, "}, {"))
		}
		return nil
	}
	for _, p := range s {
		if !slices.Contains(names, p.Name) && flags {
			return fmt.Errorf("it names parameters, but not {%s}; name it where its value belongs, or set flags: false if the program gets it in another way", p.Name)
		}
	}
	return nil
}

// Fill is the command of one trial.
func (c command) fill(p tune.Params, flags bool) []string {
	words := c.words()
	if len(c.names()) == 0 {
		for i := range words {
			words[i] = braces.Replace(words[i])
		}
		for name, v := range p.All() {
			if flags {
				words = append(words, fmt.Sprintf("--%s=%s", name, text(v)))
			}
		}
		return words
	}
	shell := c.shell() && c.list == nil
	var filled []string
	for _, w := range words {
		if shell {
			filled = append(filled, replace(w, p, true))
			continue
		}
		if absent(w, p) {
			// A flag whose value is not there is not there either.
			if n := len(filled); n > 0 && w[0] == '{' && strings.HasPrefix(filled[n-1], "-") && !strings.Contains(filled[n-1], "=") {
				filled = filled[:n-1]
			}
			continue
		}
		filled = append(filled, replace(w, p, false))
	}
	return filled
}

var braces = strings.NewReplacer("{{", "{", "}}", "}")

// absent says whether a word names a parameter that the trial does not have.
func absent(word string, p tune.Params) bool {
	return slices.ContainsFunc(hole.FindAllString(word, -1), func(h string) bool {
		return h != "{{" && h != "}}" && !p.Has(h[1:len(h)-1])
	})
}

func replace(word string, p tune.Params, shell bool) string {
	return hole.ReplaceAllStringFunc(word, func(h string) string {
		if h == "{{" || h == "}}" {
			return h[:1]
		}
		v, ok := p.Get(h[1 : len(h)-1])
		if !ok {
			return ""
		}
		s := text(v)
		if shell && strings.ContainsAny(s, shellSyntax+" ") {
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
		return s
	})
}

// text is a value as a flag has it, with all of its digits.
func text(v any) string { return fmt.Sprint(v) }
