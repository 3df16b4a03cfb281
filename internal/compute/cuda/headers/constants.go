package headers

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	comment   = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	directive = regexp.MustCompile(`(?m)^[ \t]*#[^\n]*(\\\n[^\n]*)*`)
	enum      = regexp.MustCompile(`\benum\b[^{};()]*\{([^{}]*)\}`)
	macro     = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(.+)$`)

	// item is a name, perhaps an attribute, and a value.
	item = regexp.MustCompile(`(?s)^(\w+)\b[^=]*(?:=(.*))?$`)
)

// Constants returns the constants of all enumerations in a header's text, and the macros that are
// numbers, or pointers written as numbers. Those whose value is not a plain expression of numbers
// and of constants before it are left out, and so are those that count on from them.
func Constants(text string) map[string]int64 {
	text = comment.ReplaceAllString(text, " ")
	macros := macro.FindAllStringSubmatch(text, -1)
	text = directive.ReplaceAllString(text, "")
	values := make(map[string]int64)
	for _, match := range enum.FindAllStringSubmatch(text, -1) {
		next, known := int64(0), true
		for _, part := range splitItems(match[1]) {
			part = strings.TrimSpace(part)
			m := item.FindStringSubmatch(part)
			if m == nil {
				if part != "" {
					// It is something else than a name and a value.
					known = false
				}
				continue
			}
			if expression := strings.TrimSpace(m[2]); expression != "" {
				next, known = evaluate(expression, values)
			}
			if known {
				values[m[1]] = next
				next++
			}
		}
	}
	for _, m := range macros {
		if _, known := values[m[1]]; known {
			continue
		}
		if v, ok := evaluate(strings.ReplaceAll(m[2], "(void*)", ""), values); ok {
			values[m[1]] = v
		}
	}
	return values
}

// splitItems splits at the commas outside of parentheses.
func splitItems(body string) []string {
	var items []string
	depth, from := 0, 0
	for i, c := range body {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth <= 0:
			items = append(items, body[from:i])
			from = i + 1
		}
	}
	return append(items, body[from:])
}

// An evaluator works out an expression of C: numbers, names, parentheses, and - ~ * + << >> & |.
type evaluator struct {
	tokens []string
	values map[string]int64
	ok     bool
	depth  int
}

var tokenPattern = regexp.MustCompile(`\w+|<<|>>|[-+*~&|()]|\S`)

// maxDepth bounds the nesting of an expression.
const maxDepth = 100

func evaluate(expression string, values map[string]int64) (int64, bool) {
	e := &evaluator{tokens: tokenPattern.FindAllString(expression, -1), values: values, ok: true}
	v := e.binary(0)
	return v, e.ok && len(e.tokens) == 0
}

// levels are the operators of two sides, from the loosest to the tightest.
var levels = [][]string{{"|"}, {"&"}, {"<<", ">>"}, {"+", "-"}, {"*"}}

func (e *evaluator) binary(level int) int64 {
	if level == len(levels) {
		return e.unary()
	}
	v := e.binary(level + 1)
	for {
		op := ""
		for _, o := range levels[level] {
			if len(e.tokens) > 0 && e.tokens[0] == o {
				op = o
			}
		}
		if op == "" {
			return v
		}
		e.tokens = e.tokens[1:]
		w := e.binary(level + 1)
		switch op {
		case "|":
			v |= w
		case "&":
			v &= w
		case "<<":
			v <<= uint64(w) & 63
		case ">>":
			v >>= uint64(w) & 63
		case "+":
			v += w
		case "-":
			v -= w
		case "*":
			v *= w
		}
	}
}

func (e *evaluator) unary() int64 {
	if e.depth++; e.depth > maxDepth || len(e.tokens) == 0 {
		e.ok = false
		return 0
	}
	defer func() { e.depth-- }()
	t := e.tokens[0]
	e.tokens = e.tokens[1:]
	switch t {
	case "-":
		return -e.unary()
	case "+":
		return e.unary()
	case "~":
		return ^e.unary()
	case "(":
		v := e.binary(0)
		if len(e.tokens) == 0 || e.tokens[0] != ")" {
			e.ok = false
			return 0
		}
		e.tokens = e.tokens[1:]
		return v
	}
	if v, ok := e.values[t]; ok {
		return v
	}
	n, err := strconv.ParseUint(strings.TrimRight(t, "uUlL"), 0, 64)
	if err != nil {
		e.ok = false
	}
	return int64(n)
}
