package outcomes

import (
	"iter"
	"regexp"
	"slices"
	"strings"
)

// Part is the index of the first rest at which the outcomes part; -1: the text of the recorded one
// is not known.
func (d *Difference) Part() int {
	if d.Was == nil {
		return -1
	}
	i := 0
	for i < len(d.Was) && i < len(d.Is) && d.Was[i] == d.Is[i] {
		i++
	}
	return i
}

// Acts are those before the rest at which the outcomes part, or before the end of the job where they
// part in that; nil: none, or the text of the recorded outcome is not known.
func (d *Difference) Acts() []Act {
	group := d.Part()
	if group < 0 {
		return nil
	}
	if endAt(d.Was, group) || endAt(d.Is, group) {
		group--
	}
	if !d.Plan.Early {
		group--
	}
	if group < 0 || group >= len(d.Plan.Groups) {
		return nil
	}
	return d.Plan.Groups[group]
}

func endAt(rests []string, i int) bool {
	return i < len(rests) && strings.HasPrefix(rests[i], "end: ")
}

// OfKind is the kind of an act. A command of launch ctl is of the kind of its name.
func (a *Act) OfKind() string {
	if a.Kind == "ctl" {
		return a.Command.Do
	}
	return a.Kind
}

// Rewrites are the rests with each match of a pattern, in any combination, as it is or in place of
// it one of some texts: outcomes as they may have been before. Of many matches the first ones are
// rewritten.
func Rewrites(rests []string, pattern *regexp.Regexp, with ...string) iter.Seq[[]string] {
	type match struct{ rest, from, to int }
	var matches []match
	for i, r := range rests {
		for _, m := range pattern.FindAllStringSubmatchIndex(r, -1) {
			matches = append(matches, match{i, m[len(m)-2], m[len(m)-1]})
		}
	}
	if len(matches) > 4 {
		matches = matches[:4]
	}
	var rewrite func(at int, rests []string, yield func([]string) bool) bool
	rewrite = func(at int, rests []string, yield func([]string) bool) bool {
		if at < 0 {
			return yield(rests)
		}
		if !rewrite(at-1, rests, yield) {
			return false
		}
		// Matches are rewritten from the last one on, so that the others stay where they are.
		m := matches[at]
		for _, text := range with {
			other := slices.Clone(rests)
			other[m.rest] = other[m.rest][:m.from] + text + other[m.rest][m.to:]
			if !rewrite(at-1, other, yield) {
				return false
			}
		}
		return true
	}
	return func(yield func([]string) bool) { rewrite(len(matches)-1, rests, yield) }
}

// WouldAny reports whether one of some rests is what the record has.
func (d *Difference) WouldAny(all iter.Seq[[]string]) bool {
	for rests := range all {
		if d.Would(rests) {
			return true
		}
	}
	return false
}
