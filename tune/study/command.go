package study

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/paragon-train/paragon/tune"
)

// A command is a list of words, or one text. A text with shell syntax runs in /bin/sh; else it is
// split at spaces.
type command struct {
	list []string
	text string
}

// read implements selfReader.
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

// ownNames are what a command may name besides parameters: the trial's number and seed, and the
// folder of its checkpoint. A parameter with such a name comes first.
var ownNames = []string{"trial", "seed", "checkpoint"}

// holes are the names in braces.
func (c command) holes() []string {
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

// names are the parameters that the command names, and names that mean nothing.
func (c command) names(s tune.Space) []string {
	return slices.DeleteFunc(c.holes(), func(name string) bool { return isOwn(name, s) })
}

// isOwn says whether a name is one of ownNames, and no parameter.
func isOwn(name string, s tune.Space) bool {
	_, param := s.Param(name)
	return slices.Contains(ownNames, name) && !param
}

// hasCheckpoint says whether the command goes on from a checkpoint.
func (c command) hasCheckpoint(s tune.Space) bool {
	return isOwn("checkpoint", s) && slices.Contains(c.holes(), "checkpoint")
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
	names := c.names(s)
	for _, n := range names {
		if !slices.Contains(known, n) {
			return fmt.Errorf("it has {%s}, but the space has no such parameter, only %s; besides there are {trial}, {seed} and {checkpoint}; a brace is written {{ or }}", n, list(known))
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

// filler is what stands for the names in a command.
type filler struct {
	space   tune.Space
	attempt tune.Attempt
}

// get is the value of a name; ok is false for a parameter that is inactive.
func (f filler) get(name string) (value string, ok bool) {
	if isOwn(name, f.space) {
		switch name {
		case "trial":
			return fmt.Sprint(f.attempt.Trial), true
		case "seed":
			return fmt.Sprint(f.attempt.Seed), true
		default:
			return f.attempt.Checkpoint, true
		}
	}
	v, ok := f.attempt.Params.Get(name)
	if !ok {
		return "", false
	}
	return text(v), true
}

// fill is the command of one attempt.
func (c command) fill(s tune.Space, a tune.Attempt, flags bool) []string {
	words, p := c.words(), filler{s, a}
	var more []string
	// A command that names no parameter gets all of them as flags.
	if len(c.names(s)) == 0 && flags {
		for name, v := range a.Params.All() {
			more = append(more, fmt.Sprintf("--%s=%s", name, text(v)))
		}
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
	return append(filled, more...)
}

// absent says whether a word names a parameter that the trial does not have.
func absent(word string, p filler) bool {
	return slices.ContainsFunc(hole.FindAllString(word, -1), func(h string) bool {
		if h == "{{" || h == "}}" {
			return false
		}
		_, ok := p.get(h[1 : len(h)-1])
		return !ok
	})
}

// replace fills in a word. In a text for the shell a value is quoted if the shell would take it for
// anything but one word.
func replace(word string, p filler, shell bool) string {
	return hole.ReplaceAllStringFunc(word, func(h string) string {
		if h == "{{" || h == "}}" {
			return h[:1]
		}
		s, _ := p.get(h[1 : len(h)-1])
		if shell && strings.ContainsAny(s, shellSyntax+" ") {
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
		return s
	})
}

// text is a value as a flag has it, with all of its digits.
func text(v any) string { return fmt.Sprint(v) }
