package study

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/xrash/smetrics"
	"go.yaml.in/yaml/v3"

	"github.com/paragon-train/paragon/tune"
)

// A reader fills Go values from the nodes of a file, and gathers what is wrong with them.
type reader struct {
	file string
	errs []error
	// faulty are the fields of the file that have a mistake in them.
	faulty map[string]bool
	// levels says that the file has a fidelity.
	levels bool
}

// bad takes note of a mistake in a field, at the line of a node. Reading goes on, so that one run
// tells all mistakes of a file.
func (r *reader) bad(n *yaml.Node, field, format string, args ...any) {
	r.faulty[topField.FindString(field)] = true
	r.errs = append(r.errs, fmt.Errorf("%s line %d: %s: %s", r.file, n.Line, field, fmt.Sprintf(format, args...)))
}

// invalid gathers what the search's own check found, at the fields of the file, whose top is given.
// Fields in which the reader has found a mistake are left out.
func (r *reader) invalid(top *yaml.Node, err error) {
	told := maps.Clone(r.faulty)
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		if wrong, ok := errors.AsType[*tune.FieldError](err); ok {
			n, field := locate(top, wrong.Field)
			if !told[topField.FindString(field)] {
				r.bad(n, field, "%v", wrong.Err)
			}
			continue
		}
		r.errs = append(r.errs, fmt.Errorf("%s: %w", r.file, err))
	}
}

// fieldPart is a name, or the index of an element, in a field of tune.Config.
var fieldPart = regexp.MustCompile(`\w+`)

// locate finds a field of tune.Config in the file, as near to it as there is a node, and says how
// the file names it.
func locate(top *yaml.Node, goField string) (n *yaml.Node, field string) {
	n, value := top, top
	for _, part := range fieldPart.FindAllString(goField, -1) {
		if index, err := strconv.Atoi(part); err == nil {
			field += "[" + part + "]"
			switch {
			case value != nil && value.Kind == yaml.SequenceNode && index < len(value.Content):
				n = value.Content[index]
			case value != nil && value.Kind == yaml.MappingNode && 2*index < len(value.Content):
				// A list may have the form of a mapping, such as objectives: {accuracy: max}.
				n = value.Content[2*index]
			}
			value = nil
			continue
		}
		name := snake(part)
		if part == "Scope" {
			name = "judge"
		}
		field = join(field, name)
		key, found := entryOf(value, name)
		if value = found; key != nil {
			n = key
		}
	}
	return n, field
}

// entryOf is a field of a mapping: where it is named, and its value; nil if there is none.
func entryOf(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i], follow(mapping.Content[i+1])
		}
	}
	return nil, nil
}

// topField is the first word of a field's path.
var topField = regexp.MustCompile(`^[^.\[]*`)

// err joins all mistakes; nil: there is none.
func (r *reader) err() error { return errors.Join(r.errs...) }

// follow is the node that an alias stands for.
func follow(n *yaml.Node) *yaml.Node {
	// The bound ends an alias of itself.
	for range 100 {
		if n.Kind != yaml.AliasNode {
			return n
		}
		n = n.Alias
	}
	return n
}

// what says what a node is, for errors.
func what(n *yaml.Node) string {
	switch n = follow(n); n.Kind {
	case yaml.MappingNode:
		return "fields"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!str":
		return strconv.Quote(n.Value)
	}
	return n.Value
}

// An entry is a field of a mapping.
type entry struct {
	key string
	// at is the node that names it.
	at    *yaml.Node
	value *yaml.Node
}

// entries are the fields of a mapping, in the order of the file. One that is there twice is an
// error.
func (r *reader) entries(n *yaml.Node, field string) []entry {
	n = follow(n)
	if n.Kind != yaml.MappingNode {
		r.bad(n, field, "got %s, want fields, such as %s: {...}", what(n), last(field))
		return nil
	}
	var all []entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := follow(n.Content[i])
		if key.Kind != yaml.ScalarNode {
			r.bad(key, field, "got %s for the name of a field", what(key))
			continue
		}
		if slices.ContainsFunc(all, func(e entry) bool { return e.key == key.Value }) {
			r.bad(key, join(field, key.Value), "it is given twice")
			continue
		}
		all = append(all, entry{key.Value, key, follow(n.Content[i+1])})
	}
	return all
}

// join is the path of a field within another; "" is the top of the file.
func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// last is the last word of a field's path.
func last(field string) string { return field[strings.LastIndexByte(field, '.')+1:] }

// list are the elements of a sequence.
func (r *reader) list(n *yaml.Node, field string) []*yaml.Node {
	n = follow(n)
	if n.Kind != yaml.SequenceNode {
		r.bad(n, field, "got %s, want a list: [a, b]", what(n))
		return nil
	}
	all := make([]*yaml.Node, len(n.Content))
	for i, e := range n.Content {
		all[i] = follow(e)
	}
	return all
}

// unknown says that there is no such field, and which there are.
func (r *reader) unknown(e entry, field string, known []string) {
	r.bad(e.at, join(field, e.key), "there is no such field%s; there are %s", meant(e.key, known), strings.Join(known, ", "))
}

// meant asks whether a name was meant.
func meant(got string, names []string) string {
	if k := nearest(got, names); k != "" {
		return fmt.Sprintf(" (did you mean %s?)", k)
	}
	return ""
}

// nearest is the name that a slip of a few letters may have meant, by Levenshtein's distance.
func nearest(got string, names []string) string {
	best, least := "", min(len(got), 4)
	for _, name := range names {
		if d := smetrics.WagnerFischer(got, name, 1, 1, 1); d < least {
			best, least = name, d
		}
	}
	return best
}

// A selfReader is a type with a form of its own in the file.
type selfReader interface {
	read(r *reader, n *yaml.Node, field string)
}

var (
	durationType  = reflect.TypeFor[time.Duration]()
	schedulerType = reflect.TypeFor[tune.Scheduler]()
	suggesterType = reflect.TypeFor[tune.Suggester]()
)

// fields are the fields of a struct that a file may have, by their names in it. Those of a struct
// with the tag file:"inline" stand among them.
func fields(v reflect.Value) (names []string, at map[string]reflect.Value) {
	at = make(map[string]reflect.Value)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Tag.Get("file") == "inline" {
			within, those := fields(v.Field(i))
			names = append(names, within...)
			maps.Copy(at, those)
			continue
		}
		if !f.IsExported() || f.Anonymous || f.Type.Kind() == reflect.Func || f.Tag.Get("file") == "-" || f.Name == "Stderr" || f.Name == "Unclipped" {
			continue
		}
		name := snake(f.Name)
		names = append(names, name)
		at[name] = v.Field(i)
	}
	return names, at
}

// snake is a Go name as files have it: MaxStep is max_step.
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, c := range runes {
		upper := unicode.IsUpper(c)
		if upper && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]) && i+2 < len(runes)) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// value fills v.
func (r *reader) value(n *yaml.Node, field string, v reflect.Value) {
	n = follow(n)
	if own, ok := v.Addr().Interface().(selfReader); ok {
		own.read(r, n, field)
		return
	}
	switch {
	case v.Type() == durationType:
		v.SetInt(int64(r.duration(n, field)))
		return
	case v.Type() == schedulerType:
		if s := r.scheduler(n, field); s != nil {
			v.Set(reflect.ValueOf(s))
		}
		return
	case v.Type() == suggesterType:
		if s := r.suggester(n, field); s != nil {
			v.Set(reflect.ValueOf(s))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		r.fill(n, field, v)
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		// A bool stands for a struct with all its defaults, or for none, as in guard: true.
		if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" {
			if n.Value == "true" {
				v.Set(p)
			}
			return
		}
		r.value(n, field, p.Elem())
		v.Set(p)
	case reflect.Slice:
		for i, e := range r.list(n, field) {
			x := reflect.New(v.Type().Elem()).Elem()
			r.value(e, fmt.Sprintf("%s[%d]", field, i), x)
			v.Set(reflect.Append(v, x))
		}
	case reflect.Array:
		all := r.list(n, field)
		if len(all) != v.Len() {
			r.bad(n, field, "got %d values, want %d", len(all), v.Len())
			return
		}
		for i, e := range all {
			r.value(e, field, v.Index(i))
		}
	default:
		r.scalar(n, field, v)
	}
}

// fill fills a struct's fields from those of a mapping; nothing leaves them as they are.
func (r *reader) fill(n *yaml.Node, field string, v reflect.Value) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	names, at := fields(v)
	for _, e := range r.entries(n, field) {
		f, ok := at[e.key]
		if !ok {
			r.unknown(e, field, names)
			continue
		}
		r.value(e.value, join(field, e.key), f)
	}
}

// scalar fills a text, a bool or a number. What YAML takes for another type is a mistake, but for a
// whole number with a point or an exponent.
func (r *reader) scalar(n *yaml.Node, field string, v reflect.Value) {
	if n.Kind != yaml.ScalarNode {
		r.bad(n, field, "got %s, want %s", what(n), wanted(v.Kind()))
		return
	}
	tag := n.ShortTag()
	switch v.Kind() {
	case reflect.String:
		if tag != "!!null" {
			v.SetString(n.Value)
			return
		}
	case reflect.Bool:
		if tag == "!!bool" {
			v.SetBool(n.Value == "true" || n.Value == "True" || n.Value == "TRUE")
			return
		}
	case reflect.Float64:
		if x, ok := number(n); ok {
			v.SetFloat(x)
			return
		}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		if tag == "!!float" {
			// An integer may be written as a whole number of another form, such as 1e6. Below 2⁵³ a
			// float64 is exact.
			if x, ok := number(n); ok && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
				if v.Kind() != reflect.Uint64 {
					v.SetInt(int64(x))
					return
				} else if x >= 0 {
					v.SetUint(uint64(x))
					return
				}
			}
		}
		if tag == "!!int" && n.Decode(v.Addr().Interface()) == nil {
			return
		}
	}
	r.bad(n, field, "got %s, want %s", what(n), wanted(v.Kind()))
}

// wanted says for people what a field of a kind takes.
func wanted(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.Uint64:
		return "a whole number, 0 or more"
	}
	return "a whole number"
}

// number is a number of the file.
func number(n *yaml.Node) (float64, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" && n.ShortTag() != "!!float" {
		return 0, false
	}
	var x float64
	err := n.Decode(&x)
	return x, err == nil
}

// duration is a time with its unit. Only 0 needs none: a number alone would leave open which it is.
func (r *reader) duration(n *yaml.Node, field string) time.Duration {
	if n.Kind == yaml.ScalarNode {
		if n.Value == "0" {
			return 0
		}
		if d, err := time.ParseDuration(n.Value); err == nil {
			if d < 0 {
				r.bad(n, field, "got %s, want 0 or more", n.Value)
			}
			return d
		}
	}
	r.bad(n, field, "got %s, want a time with its unit, such as 90s, 10m or 2h", what(n))
	return 0
}

// constant is a value that a parameter can have.
func (r *reader) constant(n *yaml.Node, field string) any {
	n = follow(n)
	if n.Kind == yaml.ScalarNode {
		switch n.ShortTag() {
		case "!!str":
			return n.Value
		case "!!bool":
			return n.Value == "true" || n.Value == "True" || n.Value == "TRUE"
		case "!!int":
			var i int64
			if n.Decode(&i) == nil {
				return i
			}
		case "!!float":
			if x, ok := number(n); ok && !math.IsInf(x, 0) && !math.IsNaN(x) {
				return x
			}
		}
	}
	r.bad(n, field, "got %s, want a text, a number, true or false", what(n))
	return nil
}
