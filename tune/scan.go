package tune

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The words of a line: what appendString, appendNumber and so on wrote, and nothing else.

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("byte %d: %s", d.i, what)
	}
}

// has goes past s if it is next.
func (d *decoder) has(s string) bool {
	if d.err == nil && len(d.b)-d.i >= len(s) && string(d.b[d.i:d.i+len(s)]) == s {
		d.i += len(s)
		return true
	}
	return false
}

func (d *decoder) want(s string) {
	if !d.has(s) {
		d.fail("want " + s)
	}
}

// while takes bytes for as long as they are in set.
func (d *decoder) while(set string) []byte {
	from := d.i
	for d.i < len(d.b) && strings.IndexByte(set, d.b[d.i]) >= 0 {
		d.i++
	}
	return d.b[from:d.i]
}

func (d *decoder) int() int {
	if d.err != nil {
		return 0
	}
	s := d.while("-0123456789")
	n, err := strconv.ParseInt(string(s), 10, 64)
	if err != nil || len(s) > 1 && (s[0] == '0' || s[0] == '-' && s[1] == '0') {
		d.fail("want an integer")
	}
	return int(n)
}

func (d *decoder) nonzero() int {
	n := d.int()
	if n == 0 {
		d.fail("want another number than 0")
	}
	return n
}

func (d *decoder) uint() uint64 {
	if d.err != nil {
		return 0
	}
	s := d.while("0123456789")
	n, err := strconv.ParseUint(string(s), 10, 64)
	if err != nil || len(s) > 1 && s[0] == '0' {
		d.fail("want a number")
	}
	return n
}

func (d *decoder) ints() []int {
	var list []int
	d.want("[")
	for !d.has("]") && d.err == nil {
		if len(list) > 0 {
			d.want(",")
		}
		list = append(list, d.int())
	}
	return list
}

func (d *decoder) time() time.Time {
	s := d.while("0123456789-:.TZ")
	t, err := time.Parse(time.RFC3339Nano, string(s))
	if err != nil || string(t.UTC().AppendFormat(nil, time.RFC3339Nano)) != string(s) {
		d.fail("want a time")
	}
	return t
}

// number is what appendNumber wrote, to the bit but for the payload of a NaN.
func (d *decoder) number() float64 {
	switch {
	case d.has(`"NaN"`):
		return math.NaN()
	case d.has(`"+Inf"`):
		return math.Inf(1)
	case d.has(`"-Inf"`):
		return math.Inf(-1)
	}
	s := d.while("0123456789+-.e")
	f, err := strconv.ParseFloat(string(s), 64)
	if err != nil || string(strconv.AppendFloat(make([]byte, 0, 32), f, 'g', -1, 64)) != string(s) {
		d.fail("want a number")
	}
	return f
}

func (d *decoder) notNaN() float64 {
	f := d.number()
	if f != f {
		d.fail("want a number, not NaN")
	}
	return f
}

// text is the string behind the key, or "" if the key is not next.
func (d *decoder) text(key string) string {
	if !d.has(key) {
		return ""
	}
	s := d.name()
	if s == "" {
		d.fail("want a text that is not empty")
	}
	return s
}

// maxNames bounds how many names are kept.
const maxNames = 1 << 12

// name is string for what comes again and again.
func (d *decoder) name() string {
	from := d.i
	if d.err == nil && d.i < len(d.b) && d.b[d.i] == '"' {
		for j := d.i + 1; j < len(d.b); j++ {
			if c := d.b[j]; c == '"' {
				if s, ok := d.names[string(d.b[from+1:j])]; ok {
					d.i = j + 1
					return s
				}
				break
			} else if c < 0x20 || c >= 0x7f || c == '\\' {
				break
			}
		}
	}
	s := d.string()
	if d.err == nil && d.i-from == len(s)+2 && len(s) < 100 && len(d.names) < maxNames {
		d.names[s] = s
	}
	return s
}

// string reads what appendString wrote.
func (d *decoder) string() string {
	if d.err != nil {
		return ""
	}
	from := d.i
	d.want(`"`)
	var s []byte
	for d.err == nil {
		if d.i == len(d.b) {
			d.fail("want a string")
			return ""
		}
		c := d.b[d.i]
		d.i++
		switch {
		case c == '"':
			if !utf8.Valid(s) || string(appendString(nil, string(s))) != string(d.b[from:d.i]) {
				d.fail("want a string")
			}
			return string(s)
		case c == '\\':
			s = d.escaped(s)
		default:
			s = append(s, c)
		}
	}
	return ""
}

func (d *decoder) escaped(s []byte) []byte {
	switch {
	case d.has("n"):
		return append(s, '\n')
	case d.has(`"`):
		return append(s, '"')
	case d.has(`\`):
		return append(s, '\\')
	case d.has("u00") && len(d.b)-d.i >= 2:
		n, err := strconv.ParseUint(string(d.b[d.i:d.i+2]), 16, 8)
		if err != nil {
			break
		}
		d.i += 2
		return append(s, byte(n))
	}
	d.fail("want an escape of a string")
	return s
}

func (d *decoder) params() Params {
	var list []pair
	d.want("{")
	for !d.has("}") && d.err == nil {
		if len(list) > 0 {
			d.want(",")
		}
		name := d.name()
		d.want(":")
		list = append(list, pair{name, d.value()})
		if len(list) > maxParams {
			d.fail("too many parameters")
		}
	}
	return Params{list}
}

func (d *decoder) value() any {
	if d.err != nil || d.i == len(d.b) {
		d.fail("want a value")
		return nil
	}
	switch d.b[d.i] {
	case '"':
		return d.name()
	case 't':
		d.want("true")
		return true
	case 'f':
		d.want("false")
		return false
	}
	s := string(d.while("0123456789+-.e"))
	v, err := parseNumber(s)
	if err != nil || string(appendValue(make([]byte, 0, 32), v)) != s {
		d.fail("want a value")
	}
	return v
}
