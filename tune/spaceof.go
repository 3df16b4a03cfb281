package tune

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// SpaceOf makes a space of the fields of a struct that have an hp tag, in their order:
//
//	type Args struct {
//		LearningRate float64 `hp:"log,1e-4,1e-1"`
//		Momentum     float64 `hp:"0,0.99,when=optimizer:sgd|nag"`
//		Optimizer    string  `hp:"choice,sgd,nag,adam"`
//		Layers       int     `hp:"1,8,step=2"`
//		Batch        int     `hp:"grid,32,64"`
//		Nesterov     bool    `hp:"bool"`
//		Noise        float64 `hp:"normal,0,1,name=eps"`
//		Dropout      float64 `hp:"0,0.9,q=0.1"`
//		Head         struct{ Width int `hp:"log,8,512"` } // head.width
//	}
//
// A tag is a list: one of real, int, bool, choice, grid, normal, lognormal, and log, which are
// left out where the type says it; then bounds or values; then name=, q=, step=, default=, and
// when=PARENT:VALUE|VALUE. A parameter's name is the field's in lower case, words joined by
// underscores. A field that is not zero in v is the default. A conditional field may stand
// before its parent: parents are moved to the front.
func SpaceOf(v any) (Space, error) {
	r := reflect.Indirect(reflect.ValueOf(v))
	if !r.IsValid() || r.Kind() != reflect.Struct {
		return nil, fmt.Errorf("tune: space of %T: want a struct", v)
	}
	var s Space
	err := eachField(r, "", func(name string, f reflect.Value, tag string) error {
		p, err := paramOf(name, f, tag)
		if err == nil {
			err = fitsInt(f, p.Spec)
		}
		if err != nil {
			return fmt.Errorf("tune: space of %s: field %s, tag %q: %w", r.Type(), name, tag, err)
		}
		s = append(s, p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s = parentsFirst(s)
	return s, s.Validate()
}

// parentsFirst moves conditional parameters behind their parents.
func parentsFirst(s Space) Space {
	var out, rest Space = nil, s
	for len(rest) > 0 {
		var later Space
		for _, p := range rest {
			if _, ok := out.Param(p.Parent); p.Parent == "" || ok {
				out = append(out, p)
			} else {
				later = append(later, p)
			}
		}
		// There is no such parent, or a cycle: Validate reports it.
		if len(later) == len(rest) {
			return append(out, later...)
		}
		rest = later
	}
	return out
}

// eachField goes through the tagged fields, also those of structs inside.
func eachField(r reflect.Value, prefix string, f func(name string, field reflect.Value, tag string) error) error {
	for i := range r.NumField() {
		field := r.Type().Field(i)
		tag, tagged := field.Tag.Lookup("hp")
		if tagged && tag != "-" && !field.IsExported() {
			return fmt.Errorf("field %s: its tag %q counts only if the field is exported", field.Name, tag)
		}
		if !field.IsExported() || tag == "-" {
			continue
		}
		name := prefix + snake(field.Name)
		switch {
		case tagged:
			for _, part := range strings.Split(tag, ",") {
				if own, ok := strings.CutPrefix(part, "name="); ok {
					name = prefix + own
				}
			}
			if err := f(name, r.Field(i), tag); err != nil {
				return err
			}
		case field.Type.Kind() == reflect.Struct:
			if field.Anonymous {
				name = strings.TrimSuffix(prefix, ".")
			}
			inner := name + "."
			if name == "" {
				inner = ""
			}
			if err := eachField(r.Field(i), inner, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// fitsInt says that a field can hold an integer parameter's bounds.
func fitsInt(f reflect.Value, p Spec) error {
	switch {
	case p.Kind != KindInt:
	case f.CanUint() && (p.Low < 0 || p.High > math.MaxUint64 || f.OverflowUint(uint64(p.High))),
		f.CanInt() && (f.OverflowInt(int64(p.Low)) || f.OverflowInt(int64(p.High))):
		return fmt.Errorf("range [%v, %v]: the type %s does not hold it", p.Low, p.High, f.Type())
	}
	return nil
}

// snake writes LearningRate as learning_rate, and LR as lr.
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, c := range runes {
		if i > 0 && unicode.IsUpper(c) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// paramOf is the parameter of a field, by its tag.
func paramOf(name string, f reflect.Value, tag string) (Param, error) {
	kind, log := Kind(""), false
	var args []string
	options := map[string]string{}
	for i, part := range strings.Split(tag, ",") {
		part = strings.TrimSpace(part)
		key, value, isOption := strings.Cut(part, "=")
		switch {
		case part == "" && i == 0:
		case kind != KindChoice && kind != KindGrid && part == "log":
			log = true
		case kind == "" && len(args) == 0 && slices.Contains([]Kind{KindReal, KindInt, KindBool, KindChoice, KindGrid, KindNormal, KindLogNormal}, Kind(part)):
			kind = Kind(part)
		case isOption && slices.Contains([]string{"name", "q", "step", "default", "when"}, key):
			options[key] = value
		default:
			args = append(args, part)
		}
	}
	if kind == "" {
		switch {
		case f.CanInt() || f.CanUint():
			kind = KindInt
		case f.CanFloat():
			kind = KindReal
		case f.Kind() == reflect.Bool:
			kind = KindBool
		default:
			return Param{}, fmt.Errorf("the type %s needs choice or grid", f.Type())
		}
	}
	p, err := ofKind(kind, name, f, args)
	if err != nil {
		return Param{}, err
	}
	if log {
		p = p.Log()
	}
	return p.withOptions(f, options)
}

// ofKind is a parameter of a kind, with the values of its tag as those of the field.
func ofKind(kind Kind, name string, f reflect.Value, args []string) (Param, error) {
	switch kind {
	case KindBool:
		if len(args) > 0 {
			return Param{}, fmt.Errorf("a bool has no bounds")
		}
		return Bool(name), nil
	case KindChoice, KindGrid:
		values := make([]any, len(args))
		for i, a := range args {
			v, err := parseAs(f, a)
			if err != nil {
				return Param{}, err
			}
			values[i] = v
		}
		if kind == KindGrid {
			return Grid(name, values...), nil
		}
		return Choice(name, values...), nil
	}
	if len(args) != 2 {
		return Param{}, fmt.Errorf("got %d numbers, want 2", len(args))
	}
	a, err := strconv.ParseFloat(args[0], 64)
	if err != nil {
		return Param{}, err
	}
	b, err := strconv.ParseFloat(args[1], 64)
	if err != nil {
		return Param{}, err
	}
	switch kind {
	case KindNormal:
		return Normal(name, a, b), nil
	case KindLogNormal:
		return LogNormal(name, a, b), nil
	case KindInt:
		if a != float64(int(a)) || b != float64(int(b)) {
			return Param{}, fmt.Errorf("bounds %v and %v: want integers", a, b)
		}
		return Int(name, int(a), int(b)), nil
	default:
		return Real(name, a, b), nil
	}
}

// withOptions adds the options of a tag.
func (p Param) withOptions(f reflect.Value, options map[string]string) (Param, error) {
	if s, ok := options["q"]; ok {
		q, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return p, err
		}
		p = p.Quantise(q)
	}
	if s, ok := options["step"]; ok {
		k, err := strconv.Atoi(s)
		if err != nil {
			return p, err
		}
		p = p.Step(k)
	}
	if s, ok := options["default"]; ok {
		v, err := parseAs(f, s)
		if err != nil {
			return p, err
		}
		p = p.Default(v)
	} else if !f.IsZero() && p.Kind != KindGrid {
		p = p.Default(f.Interface())
	}
	if s, ok := options["when"]; ok {
		parent, list, _ := strings.Cut(s, ":")
		var values []any
		for _, v := range strings.Split(list, "|") {
			values = append(values, literal(v))
		}
		p = p.When(parent, values...)
	}
	return p, p.err
}

// parseAs reads a value of the field's type.
func parseAs(f reflect.Value, s string) (any, error) {
	switch {
	case f.CanFloat():
		return strconv.ParseFloat(s, 64)
	case f.CanInt() || f.CanUint():
		return strconv.ParseInt(s, 10, 64)
	case f.Kind() == reflect.Bool:
		return strconv.ParseBool(s)
	case f.Kind() == reflect.String:
		return s, nil
	default:
		return nil, fmt.Errorf("type %s: want a float, an integer, a bool or a string", f.Type())
	}
}

// literal is a value of unknown type: a number or a bool if it reads as one.
func literal(s string) any {
	if v, err := parseNumber(s); err == nil {
		return v
	}
	if s == "true" || s == "false" {
		return s == "true"
	}
	return s
}

// Decode sets the fields of a struct to the parameters, by the names that SpaceOf gives them. A
// field of an inactive parameter is left unchanged. A parameter without a field, or of a type that
// does not fit, is an error.
func (p Params) Decode(v any) error {
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Pointer || r.IsNil() || r.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("tune: decode parameters into %T: want a pointer to a struct", v)
	}
	found := map[string]bool{}
	err := eachField(r.Elem(), "", func(name string, f reflect.Value, _ string) error {
		value, ok := p.Get(name)
		if !ok {
			return nil
		}
		found[name] = true
		if err := set(f, value); err != nil {
			return fmt.Errorf("tune: decode parameter %q: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for name := range p.All() {
		if !found[name] {
			return fmt.Errorf("tune: decode parameters into %T: there is no field for %q", v, name)
		}
	}
	return nil
}

// set sets a field to a value of its parameter. It is an error if the field cannot hold it.
func set(f reflect.Value, value any) error {
	fits := true
	switch x := value.(type) {
	case float64:
		if fits = f.CanFloat(); fits {
			f.SetFloat(x)
		}
	case int64:
		switch {
		case f.CanInt() && !f.OverflowInt(x):
			f.SetInt(x)
		case f.CanUint() && x >= 0 && !f.OverflowUint(uint64(x)):
			f.SetUint(uint64(x))
		case f.CanFloat():
			f.SetFloat(float64(x))
		default:
			fits = false
		}
	case bool:
		if fits = f.Kind() == reflect.Bool; fits {
			f.SetBool(x)
		}
	case string:
		if fits = f.Kind() == reflect.String; fits {
			f.SetString(x)
		}
	}
	if !fits {
		return fmt.Errorf("value %s does not fit a field of type %s", formatValue(value), f.Type())
	}
	return nil
}
