package jsonline

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// AppendInt writes a key, which may be empty, and an integer.
func AppendInt(b []byte, key string, n int) []byte {
	b = append(b, key...)
	return strconv.AppendInt(b, int64(n), 10)
}

// AppendInts writes a key and a list of integers.
func AppendInts(b []byte, key string, list []int) []byte {
	b = append(b, key...)
	b = append(b, '[')
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return append(b, ']')
}

// AppendText writes nothing for "".
func AppendText(b []byte, key, s string) []byte {
	if s == "" {
		return b
	}
	b = append(b, key...)
	return AppendString(b, s)
}

// AppendTrue writes field, a key with true, or nothing.
func AppendTrue(b []byte, field string, yes bool) []byte {
	if yes {
		return append(b, field...)
	}
	return b
}

// AppendNumber writes also what JSON has no numbers for, as texts.
func AppendNumber(b []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(b, `"+Inf"`...)
	case math.IsInf(v, -1):
		return append(b, `"-Inf"`...)
	default:
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	}
}

// AppendTexts writes nothing for an empty list.
func AppendTexts(b []byte, key string, list []string) []byte {
	for i, s := range list {
		if i == 0 {
			b = append(append(b, key...), '[')
		} else {
			b = append(b, ',')
		}
		b = AppendString(b, s)
	}
	if len(list) > 0 {
		b = append(b, ']')
	}
	return b
}

// hexDigits are the digits of escapes.
const hexDigits = "0123456789abcdef"

// AppendString writes a JSON string.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			// What is not UTF-8 becomes U+FFFD. That happens in messages alone: names
			// and values are checked.
			b = utf8.AppendRune(b, r)
			i += n
			continue
		}
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c < 0x20 || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, c)
		}
		i++
	}
	return append(b, '"')
}
