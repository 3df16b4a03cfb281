package tune

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Params are the parameters of one trial: names and values in the order of the
// space. A value is a float64, int64, bool or string. Params never change; the
// zero value is empty. JSON preserves values and types: a float64 is always written
// with a point or an exponent, an int64 without.
//
// Float, Int, Bool and Text panic if the name or the type is wrong, with a message
// that names the parameters. In a trial the panic is a failure of class UserCode; the
// search continues.
type Params struct {
	list []pair
}

// A pair is a parameter: its value is a float64, int64, bool or string.
type pair struct {
	name  string
	value any
}

// NewParams makes parameters of alternating names and values, in this order. Values
// may be of any integer or float type, bool or string.
func NewParams(namesAndValues ...any) (Params, error) {
	if len(namesAndValues)%2 != 0 {
		return Params{}, fmt.Errorf("tune: parameters: got %d arguments, want alternating names and values", len(namesAndValues))
	}
	list := make([]pair, 0, len(namesAndValues)/2)
	for i := 0; i < len(namesAndValues); i += 2 {
		name, ok := namesAndValues[i].(string)
		if !ok {
			return Params{}, fmt.Errorf("tune: parameters: argument %d is %T, want a name", i, namesAndValues[i])
		}
		if slices.ContainsFunc(list, func(q pair) bool { return q.name == name }) {
			return Params{}, fmt.Errorf("tune: parameters: %q is given twice", name)
		}
		if err := validName(name); err != nil {
			return Params{}, err
		}
		value, err := normal(namesAndValues[i+1])
		if err != nil {
			return Params{}, fmt.Errorf("tune: parameter %q: %w", name, err)
		}
		list = append(list, pair{name, value})
	}
	return Params{list}, nil
}

// MustParams is NewParams for literals: it panics where NewParams has an error.
func MustParams(namesAndValues ...any) Params {
	p, err := NewParams(namesAndValues...)
	if err != nil {
		panic(err.Error())
	}
	return p
}

// normal turns a value of any basic type into one of the four.
func normal(value any) (any, error) {
	switch v := value.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("value %v is not finite", v)
		}
		return v, nil
	case float32:
		return normal(float64(v))
	case int:
		return int64(v), nil
	case int64:
		return v, nil
	case int32:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int8:
		return int64(v), nil
	case uint8:
		return int64(v), nil
	case uint16:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case uint:
		return normal(uint64(v))
	case uint64:
		if v > math.MaxInt64 {
			return nil, fmt.Errorf("value %d is above %d", v, int64(math.MaxInt64))
		}
		return int64(v), nil
	case bool:
		return v, nil
	case string:
		if !utf8.ValidString(v) {
			return nil, fmt.Errorf("value %q is not UTF-8", v)
		}
		return v, nil
	default:
		return nil, fmt.Errorf("value %v is of type %T, want a float, an integer, a bool or a string", value, value)
	}
}

// validName says what is wrong with the name of a parameter.
func validName(name string) error {
	if name == "" {
		return fmt.Errorf("tune: a parameter has no name")
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("tune: parameter %q: the name is not UTF-8", name)
	}
	return nil
}

// Len returns how many parameters there are.
func (p Params) Len() int { return len(p.list) }

// Get returns the value of a parameter, and whether it is there.
func (p Params) Get(name string) (any, bool) {
	for _, q := range p.list {
		if q.name == name {
			return q.value, true
		}
	}
	return nil, false
}

// Has says whether there is such a parameter. A conditional one may be inactive.
func (p Params) Has(name string) bool {
	_, ok := p.Get(name)
	return ok
}

// Names returns the names in their order.
func (p Params) Names() []string {
	names := make([]string, len(p.list))
	for i, q := range p.list {
		names[i] = q.name
	}
	return names
}

// All iterates over names and values in their order.
func (p Params) All() func(yield func(name string, value any) bool) {
	return func(yield func(string, any) bool) {
		for _, q := range p.list {
			if !yield(q.name, q.value) {
				return
			}
		}
	}
}

// With returns the parameters with one value replaced, or added at the end.
func (p Params) With(name string, value any) (Params, error) {
	if err := validName(name); err != nil {
		return Params{}, err
	}
	v, err := normal(value)
	if err != nil {
		return Params{}, fmt.Errorf("tune: parameter %q: %w", name, err)
	}
	return p.with(name, v), nil
}

// with is With for a value that is normal already.
func (p Params) with(name string, value any) Params {
	list := make([]pair, len(p.list), len(p.list)+1)
	copy(list, p.list)
	for i := range list {
		if list[i].name == name {
			list[i].value = value
			return Params{list}
		}
	}
	return Params{append(list, pair{name, value})}
}

// must is the value of a parameter. It panics if there is none.
func (p Params) must(name, want string) any {
	v, ok := p.Get(name)
	if !ok {
		panic(fmt.Sprintf("tune: there is no parameter %q: there are %s", name, orNone(p.Names())))
	}
	return v
}

// wrong is the text of a panic: what a parameter is, and what the program took it for.
func (p Params) wrong(name, want string, value any) string {
	return fmt.Sprintf("tune: parameter %q is %s, of type %s, but was read as %s", name, formatValue(value), typeName(value), want)
}

// Float returns a number; an integer is converted.
func (p Params) Float(name string) float64 {
	switch v := p.must(name, "float").(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	default:
		panic(p.wrong(name, "a float", v))
	}
}

// Int returns an integer.
func (p Params) Int(name string) int {
	v, ok := p.must(name, "int").(int64)
	if !ok {
		panic(p.wrong(name, "an integer", p.must(name, "int")))
	}
	return int(v)
}

// Bool returns a truth value.
func (p Params) Bool(name string) bool {
	v, ok := p.must(name, "bool").(bool)
	if !ok {
		panic(p.wrong(name, "a bool", p.must(name, "bool")))
	}
	return v
}

// Text returns a text.
func (p Params) Text(name string) string {
	v, ok := p.must(name, "string").(string)
	if !ok {
		panic(p.wrong(name, "a string", p.must(name, "string")))
	}
	return v
}

// Equal says whether two have the same names, in the same order, with the same
// values: 1 and 1.0 differ, and so do 0 and -0.
func (p Params) Equal(q Params) bool {
	return slices.EqualFunc(p.list, q.list, func(a, b pair) bool { return a.name == b.name && sameValue(a.value, b.value) })
}

// sameValue compares two values to the bit. An integer is never the same as a float.
func sameValue(a, b any) bool {
	x, ok := a.(float64)
	if y, also := b.(float64); ok && also {
		return math.Float64bits(x) == math.Float64bits(y)
	}
	return a == b
}

// Format prints the parameters as name=value, for every verb.
func (p Params) Format(f fmt.State, _ rune) {
	for i, q := range p.list {
		if i > 0 {
			_, _ = f.Write([]byte(" "))
		}
		_, _ = fmt.Fprintf(f, "%s=%s", q.name, formatValue(q.value))
	}
}

// formatValue is a value for a message.
func formatValue(value any) string {
	switch v := value.(type) {
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		if v == "" || strings.ContainsAny(v, " =\"\n\t") {
			return strconv.Quote(v)
		}
		return v
	default:
		return fmt.Sprint(v)
	}
}

// typeName is a value's type for a message.
func typeName(value any) string {
	switch value.(type) {
	case float64:
		return "float"
	case int64:
		return "integer"
	default:
		return fmt.Sprintf("%T", value)
	}
}

// orNone joins names for a message.
func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
