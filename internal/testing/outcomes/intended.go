package outcomes

import (
	"iter"
	"regexp"
	"slices"
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

// Together finds a group of acts of which one is of the first kinds and a later one of the second
// ones, and reports whether the outcomes can have parted for it: not before that group. A command
// of launch ctl is of the kind of its name.
func (d *Difference) Together(first, then []string) bool {
	part := d.Part()
	for i, group := range d.Plan.Groups {
		rest := i
		if !d.Plan.Early {
			rest++
		}
		k := slices.IndexFunc(group, func(a Act) bool { return slices.Contains(first, a.kind()) })
		if k >= 0 && (part < 0 || part >= rest) && slices.ContainsFunc(group[k:], func(a Act) bool { return slices.Contains(then, a.kind()) }) {
			return true
		}
	}
	return false
}

func (a *Act) kind() string {
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
