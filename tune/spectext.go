package tune

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/paragon-train/paragon/tune/internal/jsonline"
)

// String describes a parameter in full, but for the function of a derived one.
func (s Spec) String() string { return s.line() }

// line is the parameter in the header of a log. It has all that decides about proposals, so that a
// study with another space is not resumed.
func (s Spec) line() string {
	b := fmt.Appendf(nil, "%s %q", s.Kind, s.Name)
	switch s.Kind {
	case KindReal, KindInt:
		b = fmt.Appendf(b, " [%v, %v]", s.Low, s.High)
	case KindNormal, KindLogNormal:
		b = fmt.Appendf(b, " %v ± %v", s.Mean, s.Deviation)
	case KindChoice, KindGrid:
		b = append(b, ' ')
		b = append(b, formatAll(s.Values)...)
	}
	if s.Log {
		b = append(b, " log"...)
	}
	if s.Step > 0 {
		b = fmt.Appendf(b, " step %v", s.Step)
	}
	if s.Default != nil {
		b = append(append(b, " default "...), appendValue(nil, s.Default)...)
	}
	if s.Parent != "" {
		b = fmt.Appendf(b, " when %q %s", s.Parent, formatAll(s.ParentValues))
	}
	return string(b)
}

// formatAll writes values as scanValues reads them.
func formatAll(values []any) string {
	b := []byte{'['}
	for i, v := range values {
		if i > 0 {
			b = append(b, ' ')
		}
		b = appendValue(b, v)
	}
	return string(append(b, ']'))
}

// scanParam reads what Spec.line wrote.
func scanParam(d *jsonline.Scanner) Param {
	kind, _, _ := bytes.Cut(d.Rest(), []byte(" "))
	d.Skip(len(kind))
	p := Param{Spec: Spec{Kind: Kind(kind)}}
	d.Want(" ")
	p.Name = scanQuoted(d)
	switch p.Kind {
	case KindReal, KindInt:
		d.Want(" [")
		p.Low = scanFloat(d)
		d.Want(", ")
		p.High = scanFloat(d)
		d.Want("]")
	case KindNormal, KindLogNormal:
		d.Want(" ")
		p.Mean = scanFloat(d)
		d.Want(" ± ")
		p.Deviation = scanFloat(d)
	case KindChoice, KindGrid:
		d.Want(" ")
		p.Values = scanValues(d)
	case KindBool:
		p.Values = []any{false, true}
	case KindDerived:
		p.Derive = func(Params) any { return nil }
	default:
		d.Fail("there is no such kind")
	}
	p.Spec.Log = d.Has(" log")
	if d.Has(" step ") {
		p.Spec.Step = scanFloat(d)
	}
	if d.Has(" default ") {
		p.Spec.Default = scanValue(d)
	}
	if d.Has(" when ") {
		p.Parent = scanQuoted(d)
		d.Want(" ")
		p.ParentValues = scanValues(d)
	}
	return p
}

// scanQuoted reads a string as %q writes it.
func scanQuoted(d *jsonline.Scanner) string {
	word, err := strconv.QuotedPrefix(string(d.Rest()))
	if err != nil {
		d.Fail("want a name in quotes")
		return ""
	}
	d.Skip(len(word))
	// QuotedPrefix has found it quoted.
	s, _ := strconv.Unquote(word)
	return s
}

// scanFloat reads a number as %v writes it.
func scanFloat(d *jsonline.Scanner) float64 {
	x, err := strconv.ParseFloat(string(d.While("0123456789+-.e")), 64)
	if err != nil {
		d.Fail("want a number")
	}
	return x
}

// scanValues reads what formatAll wrote.
func scanValues(d *jsonline.Scanner) (list []any) {
	d.Want("[")
	for d.Err() == nil && !d.Has("]") {
		if len(list) > 0 {
			d.Want(" ")
		}
		list = append(list, scanValue(d))
	}
	return list
}
