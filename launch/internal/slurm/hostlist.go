package slurm

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits of what a list stands for, so that no text takes memory without bound.
const (
	// maxNodes is Slurm's own limit for one range.
	maxNodes = 65_536

	maxNodeName  = 255
	maxListBytes = 1 << 20
)

// A SyntaxError is in a list of Slurm's.
type SyntaxError struct {
	// List is quoted in the message, in part if it is long.
	List string

	// Position is the place of the character that is wrong, from 1.
	Position int

	Problem string
}

func (e *SyntaxError) Error() string {
	list := e.List
	if len(list) > 80 {
		from := min(max(0, e.Position-40), len(list)-80)
		list = list[from : from+80]
	}
	return fmt.Sprintf("%q has a syntax error at character %d: %s", list, e.Position, e.Problem)
}

// Expand returns the names that a hostlist stands for, in the order of `scontrol show hostnames`:
//
//	n[1-3,07],login          n1 n2 n3 n07 login
//	gpu-a[001-002]x[1-2]     gpu-a001x1 gpu-a001x2 gpu-a002x1 gpu-a002x2
//
// The first number of a range gives the width of all. Of several brackets the last one changes
// fastest, then the first, then the second and so on, as in Slurm. It is stricter where Slurm
// guesses: brackets must be closed and hold plain numbers, no name may be empty, and nothing may
// follow the last bracket of a name, which Slurm refuses as well.
func Expand(list string) ([]string, error) {
	if len(list) > maxListBytes {
		return nil, fmt.Errorf("a hostlist has %d bytes, want at most %d", len(list), maxListBytes)
	}
	p := &parser{list: list}
	var names []string
	for {
		parts, err := p.name()
		if err != nil {
			return nil, err
		}
		if names, err = p.expand(names, parts); err != nil {
			return nil, err
		}
		if p.at == len(list) {
			return names, nil
		}

		// A comma follows.
		p.at++
	}
}

// A part of a name: text, and the numbers of the bracket behind it.
type part struct {
	text string

	// numbers is nil if there is no bracket.
	numbers []string
}

type parser struct {
	list string
	at   int
}

func (p *parser) errorf(at int, format string, args ...any) error {
	return &SyntaxError{List: p.list, Position: at + 1, Problem: fmt.Sprintf(format, args...)}
}

// name reads up to the next comma outside of brackets.
func (p *parser) name() ([]part, error) {
	start := p.at
	var parts []part
	for {
		from := p.at
		for p.at < len(p.list) && isNameByte(p.list[p.at]) {
			if p.at == start && p.list[p.at] == '-' {
				return nil, p.errorf(p.at, "got -, want the first character of a node's name")
			}
			p.at++
		}
		text := p.list[from:p.at]
		end := p.at == len(p.list)
		switch {
		case (end || p.list[p.at] == ',') && text != "" && len(parts) > 0:
			return nil, p.errorf(from, "got %q after the last bracket of a name, want a comma or the end", text)
		case (end || p.list[p.at] == ',') && text == "" && len(parts) == 0:
			return nil, p.errorf(p.at, "got no name, want a node's")
		case end || p.list[p.at] == ',':
			if text != "" {
				parts = append(parts, part{text: text})
			}
			return parts, nil
		case p.list[p.at] != '[':
			return nil, p.errorf(p.at, "got %q, want letters, digits, -, _, a dot, a comma or [", p.list[p.at:p.at+1])
		}
		p.at++
		numbers, err := p.bracket()
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{text, numbers})
	}
}

// bracket reads ranges up to and with the closing bracket.
func (p *parser) bracket() (numbers []string, err error) {
	for {
		start := p.at
		first, err := p.number()
		if err != nil {
			return nil, err
		}
		last := first
		if p.at < len(p.list) && p.list[p.at] == '-' {
			p.at++
			if last, err = p.number(); err != nil {
				return nil, err
			}
		}
		from, err := strconv.ParseUint(first, 10, 63)
		if err != nil {
			return nil, p.errorf(start, "got %s, want a number below 2^63", first)
		}
		to, err := strconv.ParseUint(last, 10, 63)
		switch {
		case err != nil:
			return nil, p.errorf(start, "got %s, want a number below 2^63", last)
		case to < from:
			return nil, p.errorf(start, "got the range %s-%s, want its first number to be the lower one", first, last)
		case to-from >= maxNodes || len(numbers)+int(to-from)+1 > maxNodes:
			return nil, p.errorf(start, "the bracket has more than %d numbers", maxNodes)
		}
		for n := from; n <= to; n++ {
			numbers = append(numbers, fmt.Sprintf("%0*d", len(first), n))
		}
		switch {
		case p.at == len(p.list):
			return nil, p.errorf(p.at, "got the end, want ] to close the bracket")
		case p.list[p.at] == ']':
			p.at++
			return numbers, nil
		case p.list[p.at] != ',':
			return nil, p.errorf(p.at, "got %q in a bracket, want digits, -, a comma or ]", p.list[p.at:p.at+1])
		}
		p.at++
	}
}

func (p *parser) number() (string, error) {
	from := p.at
	for p.at < len(p.list) && '0' <= p.list[p.at] && p.list[p.at] <= '9' {
		p.at++
	}
	switch {
	case p.at > from && p.at-from <= maxNodeName:
		return p.list[from:p.at], nil
	case p.at > from:
		return "", p.errorf(from, "got a number of %d digits, want at most %d", p.at-from, maxNodeName)
	case p.at == len(p.list):
		return "", p.errorf(p.at, "got the end in a bracket, want a number")
	}
	return "", p.errorf(p.at, "got %q in a bracket, want a number", p.list[p.at:p.at+1])
}

// expand appends the names that parts stand for.
func (p *parser) expand(names []string, parts []part) ([]string, error) {
	total := 1

	// brackets are indices of parts, the one that changes slowest first.
	var brackets []int
	for i, part := range parts {
		if part.numbers == nil {
			continue
		}
		if total *= len(part.numbers); total > maxNodes {
			break
		}
		brackets = append([]int{i}, brackets...)
	}
	if len(names)+total > maxNodes {
		return nil, p.errorf(p.at-1, "the list has more than %d names", maxNodes)
	}

	// The last bracket of the name changes fastest.
	if len(brackets) > 1 {
		brackets = append(brackets[1:], brackets[0])
	}
	for n := range total {
		chosen := make([]int, len(parts))
		for i := len(brackets) - 1; i >= 0; i-- {
			numbers := parts[brackets[i]].numbers
			chosen[brackets[i]] = n % len(numbers)
			n /= len(numbers)
		}
		var name strings.Builder
		for i, part := range parts {
			name.WriteString(part.text)
			if part.numbers != nil {
				name.WriteString(part.numbers[chosen[i]])
			}
		}
		if name.Len() > maxNodeName {
			return nil, p.errorf(p.at-1, "a name has %d characters, want at most %d", name.Len(), maxNodeName)
		}
		names = append(names, name.String())
	}
	return names, nil
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}
