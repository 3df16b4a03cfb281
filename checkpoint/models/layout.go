package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/shown"
)

// A Model is one of package nn, with the ways in which files of other frameworks hold it.
type Model struct {
	// Name is what people call it: GPT-2.
	Name string
	// marks are names of parameters: a program that has all of them holds this model.
	marks   []string
	layouts []*Layout
}

// A Layout is how one framework names and arranges the parameters of a model.
type Layout struct {
	// Name is that of --format: hf, torchvision, timm, meta, nanogpt.
	Name string
	// prefix begins names in files of the whole model and is absent in files of its trunk alone.
	prefix string
	rules  []rule
	// skipped are patterns of what is no parameter, such as masks.
	skipped []string
	// head and table are the parameters that share their numbers in a tied model, whose files
	// have one of the two.
	head, table string
}

// A rule is one line of a layout's table. A "*" in a name stands for a block's number.
type rule struct {
	// ours is the parameter's name in package nn.
	ours string
	// there are the tensors whose rows, one after the other, are the parameter's.
	there []string
	form  Form
}

// A Source is what a parameter is in a file.
type Source struct {
	// Names are those of the tensors whose rows, one after the other, are the parameter's. ""
	// stands for one that the file lacks.
	Names []string
	// Wanted are the same as the table has them, for messages.
	Wanted []string
	Form   Form
	// Same is a tensor that has to have the same numbers, as the head of a tied model; "": none.
	Same string
}

// Of returns the model that has parameters of these names; nil: not known.
func Of(names []string) *Model {
	for _, m := range []*Model{gpt2(), llama(), vit()} {
		if !slices.ContainsFunc(m.marks, func(mark string) bool { return !slices.Contains(names, mark) }) {
			return m
		}
	}
	return nil
}

// Layouts returns all layouts of the model. The first is that of package nn.
func (m *Model) Layouts() []*Layout { return m.layouts }

// Layout returns the layout of a name.
func (m *Model) Layout(name string) (*Layout, error) {
	names := make([]string, len(m.layouts))
	for i, l := range m.layouts {
		if names[i] = l.Name; l.Name == name {
			return l, nil
		}
	}
	return nil, fmt.Errorf("got the format %s, want one of those of %s: %s", shown.Name(name), m.Name, strings.Join(names, ", "))
}

// Sources finds the model's parameters among a file's names, by the parameters' names. has tells
// which parameters the model has: where it has no head of its own, the file's is to be the table of
// embeddings. unknown are names that the layout does not have. That two tensors of a file would be
// one parameter is an error.
func (l *Layout) Sources(names []string, has func(parameter string) bool) (of map[string]*Source, unknown []string, err error) {
	of = map[string]*Source{}
	for _, name := range names {
		ours, r, part, ok := l.find(name)
		switch {
		case l.skips(name):
			continue
		case !ok:
			unknown = append(unknown, name)
			continue
		}
		s := of[ours]
		if s == nil {
			number, _ := match(r.ours, ours)
			s = &Source{Names: make([]string, len(r.there)), Form: r.form}
			for _, there := range r.there {
				s.Wanted = append(s.Wanted, fill(there, number))
			}
			of[ours] = s
		}
		if other := s.Names[part]; other != "" {
			return nil, nil, fmt.Errorf("%s and %s would both be %s", shown.Name(other), shown.Name(name), shown.Name(ours))
		}
		s.Names[part] = name
	}
	if head := of[l.head]; head != nil && !has(l.head) && has(l.table) {
		delete(of, l.head)
		if table := of[l.table]; table != nil {
			table.Same = head.Names[0]
		} else {
			of[l.table] = head
		}
	}
	return of, unknown, nil
}

// find returns the parameter that a tensor of a file belongs to, its rule, and which of the rule's
// tensors it is.
func (l *Layout) find(name string) (ours string, r *rule, part int, ok bool) {
	for _, full := range []string{Unwrapped(name), l.prefix + Unwrapped(name)} {
		for i := range l.rules {
			r := &l.rules[i]
			for part, there := range r.there {
				if number, ok := match(there, full); ok {
					return fill(r.ours, number), r, part, true
				}
			}
		}
	}
	return "", nil, 0, false
}

func (l *Layout) skips(name string) bool {
	for _, pattern := range l.skipped {
		for _, full := range []string{Unwrapped(name), l.prefix + Unwrapped(name)} {
			if _, ok := match(pattern, full); ok {
				return true
			}
		}
	}
	return false
}

// Target returns what a parameter becomes in a file; false: the layout does not have it.
func (l *Layout) Target(parameter string) (Source, bool) {
	for _, r := range l.rules {
		if number, ok := match(r.ours, parameter); ok {
			s := Source{Form: r.form}
			for _, there := range r.there {
				s.Names = append(s.Names, fill(there, number))
			}
			s.Wanted = s.Names
			return s, true
		}
	}
	return Source{}, false
}

// Unwrapped is a name without what PyTorch's wrappers put in front: torch.compile's _orig_mod and
// DistributedDataParallel's module.
func Unwrapped(name string) string {
	for {
		rest, compiled := strings.CutPrefix(name, "_orig_mod.")
		rest, parallel := strings.CutPrefix(rest, "module.")
		if !compiled && !parallel {
			return name
		}
		name = rest
	}
}

// match compares a name with a pattern, in which a "*" stands for a number, and returns the number.
func match(pattern, name string) (number string, ok bool) {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return "", pattern == name
	}
	rest, begins := strings.CutPrefix(name, before)
	number, ends := strings.CutSuffix(rest, after)
	switch {
	case !begins || !ends || number == "" || strings.Trim(number, "0123456789") != "":
		return "", false
	case len(number) > 1 && number[0] == '0':
		return "", false
	}
	return number, true
}

// fill puts a number into a pattern.
func fill(pattern, number string) string { return strings.Replace(pattern, "*", number, 1) }

// A table collects rules.
type table []rule

// weight adds the rule of one parameter.
func (t *table) weight(ours, there string, form Form) {
	*t = append(*t, rule{ours + ".weight", []string{there + ".weight"}, form})
}

// both adds the rules of a layer's weight and bias. A bias is never rearranged.
func (t *table) both(ours, there string, form Form) {
	t.weight(ours, there, form)
	t.plain(ours+".bias", there+".bias")
}

// plain adds the rule of a parameter that is in the file as it is here.
func (t *table) plain(ours, there string) {
	*t = append(*t, rule{ours, []string{there}, AsIs})
}
