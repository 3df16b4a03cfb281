package jsonline

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A Scanner reads the words of a line: what AppendString, AppendNumber and so on wrote, and nothing
// else. So a line that is read is the line that would be written. After the first error all words
// are zero, and none is read.
type Scanner struct {
	text []byte
	// at is the first byte of text that was not read.
	at  int
	err error
	// names are the words that Name has returned, and returns again.
	names map[string]string
}

// Reset begins another line. Names are kept.
func (d *Scanner) Reset(line []byte) {
	if d.names == nil {
		d.names = map[string]string{}
	}
	d.text, d.at, d.err = line, 0, nil
}

// Err is the first error, or nil.
func (d *Scanner) Err() error { return d.err }

// More says whether the line goes on, and nothing was wrong so far.
func (d *Scanner) More() bool { return d.err == nil && d.at < len(d.text) }

// Rest is what was not read yet.
func (d *Scanner) Rest() []byte { return d.text[d.at:] }

// Skip goes past n bytes.
func (d *Scanner) Skip(n int) { d.at += n }

// Fail sets the error, unless there is one: the first stays.
func (d *Scanner) Fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("byte %d: %s", d.at, what)
	}
}

// Has goes past s if it is next.
func (d *Scanner) Has(s string) bool {
	if d.err == nil && len(d.text)-d.at >= len(s) && string(d.text[d.at:d.at+len(s)]) == s {
		d.at += len(s)
		return true
	}
	return false
}

// Want goes past s, which must be next.
func (d *Scanner) Want(s string) {
	if !d.Has(s) {
		d.Fail("want " + s)
	}
}

// While takes bytes for as long as they are in set.
func (d *Scanner) While(set string) []byte {
	from := d.at
	for d.at < len(d.text) && strings.IndexByte(set, d.text[d.at]) >= 0 {
		d.at++
	}
	return d.text[from:d.at]
}

// Int is an integer, as strconv writes it.
func (d *Scanner) Int() int {
	if d.err != nil {
		return 0
	}
	s := d.While("-0123456789")
	n, err := strconv.ParseInt(string(s), 10, 64)
	if err != nil || len(s) > 1 && (s[0] == '0' || s[0] == '-' && s[1] == '0') {
		d.Fail("want an integer")
	}
	return int(n)
}

// Nonzero is an integer other than 0.
func (d *Scanner) Nonzero() int {
	n := d.Int()
	if n == 0 {
		d.Fail("want another number than 0")
	}
	return n
}

// Uint is an integer that has no sign.
func (d *Scanner) Uint() uint64 {
	if d.err != nil {
		return 0
	}
	s := d.While("0123456789")
	n, err := strconv.ParseUint(string(s), 10, 64)
	if err != nil || len(s) > 1 && s[0] == '0' {
		d.Fail("want a number")
	}
	return n
}

// Ints are what AppendInts wrote, without the key.
func (d *Scanner) Ints() []int {
	var list []int
	d.Want("[")
	for !d.Has("]") && d.err == nil {
		if len(list) > 0 {
			d.Want(",")
		}
		list = append(list, d.Int())
	}
	return list
}

// Time is a time in UTC, as RFC 3339 has it, with as few digits as it takes.
func (d *Scanner) Time() time.Time {
	s := d.While("0123456789-:.TZ")
	t, err := time.Parse(time.RFC3339Nano, string(s))
	if err != nil || string(t.UTC().AppendFormat(nil, time.RFC3339Nano)) != string(s) {
		d.Fail("want a time")
	}
	return t
}

// Number is what AppendNumber wrote, to the bit but for the payload of a NaN.
func (d *Scanner) Number() float64 {
	switch {
	case d.Has(`"NaN"`):
		return math.NaN()
	case d.Has(`"+Inf"`):
		return math.Inf(1)
	case d.Has(`"-Inf"`):
		return math.Inf(-1)
	}
	s := d.While("0123456789+-.e")
	// Of the many ways to write a float64 only the shortest is taken.
	f, err := strconv.ParseFloat(string(s), 64)
	if err != nil || string(strconv.AppendFloat(make([]byte, 0, 32), f, 'g', -1, 64)) != string(s) {
		d.Fail("want a number")
	}
	return f
}

// NotNaN is a number other than NaN.
func (d *Scanner) NotNaN() float64 {
	f := d.Number()
	if f != f {
		d.Fail("want a number, not NaN")
	}
	return f
}

// Text is the string behind the key, or "" if the key is not next.
func (d *Scanner) Text(key string) string {
	if !d.Has(key) {
		return ""
	}
	s := d.Name()
	if s == "" {
		d.Fail("want a text that is not empty")
	}
	return s
}

// maxNames bounds how many names are kept.
const maxNames = 1 << 12

// Name is String for what comes again and again.
func (d *Scanner) Name() string {
	from := d.at
	if d.err == nil && d.at < len(d.text) && d.text[d.at] == '"' {
		for j := d.at + 1; j < len(d.text); j++ {
			// A word without escapes is looked up by its bytes, and takes no memory.
			if c := d.text[j]; c == '"' {
				if s, ok := d.names[string(d.text[from+1:j])]; ok {
					d.at = j + 1
					return s
				}
				break
			} else if c < 0x20 || c >= 0x7f || c == '\\' {
				break
			}
		}
	}
	s := d.String()
	if d.err == nil && d.at-from == len(s)+2 && len(s) < 100 && len(d.names) < maxNames {
		d.names[s] = s
	}
	return s
}

// String reads what AppendString wrote.
func (d *Scanner) String() string {
	if d.err != nil {
		return ""
	}
	from := d.at
	d.Want(`"`)
	var s []byte
	for d.err == nil {
		if d.at == len(d.text) {
			d.Fail("want a string")
			return ""
		}
		c := d.text[d.at]
		d.at++
		switch {
		case c == '"':
			// Writing it again is the whole check: another way to write the same text
			// is refused.
			if !utf8.Valid(s) || string(AppendString(nil, string(s))) != string(d.text[from:d.at]) {
				d.Fail("want a string")
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

// escaped adds to s what an escape stands for, behind its backslash.
func (d *Scanner) escaped(s []byte) []byte {
	switch {
	case d.Has("n"):
		return append(s, '\n')
	case d.Has(`"`):
		return append(s, '"')
	case d.Has(`\`):
		return append(s, '\\')
	case d.Has("u00") && len(d.text)-d.at >= 2:
		n, err := strconv.ParseUint(string(d.text[d.at:d.at+2]), 16, 8)
		if err != nil {
			break
		}
		d.at += 2
		return append(s, byte(n))
	}
	d.Fail("want an escape of a string")
	return s
}

// Texts reads a list that is not empty, if the key is there.
func (d *Scanner) Texts(key string) (list []string) {
	if !d.Has(key) {
		return nil
	}
	d.Want("[")
	for d.err == nil {
		list = append(list, d.String())
		if d.Has("]") {
			break
		}
		d.Want(",")
	}
	return list
}
