package tune

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/tune/internal/jsonline"
)

// MarshalJSON writes one object, names in their order.
func (p Params) MarshalJSON() ([]byte, error) { return p.appendJSON(nil), nil }

// appendJSON is MarshalJSON into a buffer.
func (p Params) appendJSON(b []byte) []byte {
	b = append(b, '{')
	for i, q := range p.list {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonline.AppendString(b, q.name)
		b = append(b, ':')
		b = appendValue(b, q.value)
	}
	return append(b, '}')
}

// appendValue writes one of the four types so that parseValue gets it back.
func appendValue(b []byte, value any) []byte {
	switch v := value.(type) {
	case float64:
		return appendFloat(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case bool:
		return strconv.AppendBool(b, v)
	case string:
		return jsonline.AppendString(b, v)
	default:
		// No other type gets here: normal lets none in.
		panic(fmt.Sprintf("tune: a parameter of type %T", value))
	}
}

// appendFloat writes a finite number, always with a point or an exponent.
func appendFloat(b []byte, v float64) []byte {
	from := len(b)
	b = strconv.AppendFloat(b, v, 'g', -1, 64)
	if bytes.IndexByte(b[from:], '.') < 0 && bytes.IndexByte(b[from:], 'e') < 0 {
		b = append(b, '.', '0')
	}
	return b
}

// maxParams bounds what is read from outside.
const maxParams = 1000

// UnmarshalJSON reads an object. An object inside it stands for names with
// points: {"opt":{"momentum":0.9}} is opt.momentum. A number with a point or an
// exponent is a float64, one without an int64.
func (p *Params) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := wantDelim(d, '{'); err != nil {
		return fmt.Errorf("tune: parameters: %w", err)
	}
	list, err := readObject(d, "", nil)
	if err != nil {
		return fmt.Errorf("tune: parameters: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("tune: parameters: unexpected text after the object")
	}
	p.list = list
	return nil
}

// wantDelim reads a bracket.
func wantDelim(d *json.Decoder, want json.Delim) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if t != want {
		return fmt.Errorf("got %v, want %v", t, want)
	}
	return nil
}

// readObject reads the rest of an object, whose names begin with prefix, behind those in list.
func readObject(d *json.Decoder, prefix string, list []pair) ([]pair, error) {
	if strings.Count(prefix, ".") > 32 {
		return nil, fmt.Errorf("%s: objects nested more than 32 deep", prefix)
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		// Between the values of an object Token returns names alone.
		name := prefix + t.(string)
		if err := validName(name); err != nil {
			return nil, err
		}
		t, err = d.Token()
		if err != nil {
			return nil, err
		}
		if t == json.Delim('{') {
			if list, err = readObject(d, name+".", list); err != nil {
				return nil, err
			}
			continue
		}
		value, err := parseToken(t)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		if slices.ContainsFunc(list, func(q pair) bool { return q.name == name }) {
			return nil, fmt.Errorf("%q is given twice", name)
		}
		if len(list) == maxParams {
			return nil, fmt.Errorf("got more than %d parameters", maxParams)
		}
		list = append(list, pair{name, value})
	}
	_, err := d.Token()
	return list, err
}

// parseToken is the value of a parameter; null and lists are none.
func parseToken(t json.Token) (any, error) {
	switch v := t.(type) {
	case json.Number:
		return parseNumber(string(v))
	case bool, string:
		return v, nil
	default:
		return nil, fmt.Errorf("got %v, want a number, a bool, a string or an object", t)
	}
}

// parseNumber takes a number without a point and without an exponent for an integer.
func parseNumber(s string) (any, error) {
	if !strings.ContainsAny(s, ".eE") {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("integer %s is beyond 64 bits", s)
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, fmt.Errorf("number %s is beyond a float64", s)
	}
	return f, nil
}

// scanParams reads what appendJSON wrote.
func scanParams(d *jsonline.Scanner) Params {
	var list []pair
	d.Want("{")
	for !d.Has("}") && d.Err() == nil {
		if len(list) > 0 {
			d.Want(",")
		}
		name := d.Name()
		d.Want(":")
		list = append(list, pair{name, scanValue(d)})
		if len(list) > maxParams {
			d.Fail("too many parameters")
		}
	}
	return Params{list}
}

// scanValue reads what appendValue wrote.
func scanValue(d *jsonline.Scanner) any {
	if !d.More() {
		d.Fail("want a value")
		return nil
	}
	switch d.Rest()[0] {
	case '"':
		return d.Name()
	case 't':
		d.Want("true")
		return true
	case 'f':
		d.Want("false")
		return false
	}
	s := string(d.While("0123456789+-.e"))
	v, err := parseNumber(s)
	if err != nil || string(appendValue(make([]byte, 0, 32), v)) != s {
		d.Fail("want a value")
	}
	return v
}
