package generate

import "unicode/utf8"

// A Text makes text of bytes that come in pieces, which may end within a character: what is not
// whole waits for its rest. Bytes that are part of no character become U+FFFD. The zero value is
// ready.
type Text struct{ rest []byte }

// Add returns the characters that are whole with these bytes.
func (t *Text) Add(piece []byte) string {
	t.rest = append(t.rest, piece...)
	var out []byte
	for len(t.rest) > 0 && utf8.FullRune(t.rest) {
		r, n := utf8.DecodeRune(t.rest)
		out = utf8.AppendRune(out, r)
		t.rest = t.rest[n:]
	}
	return string(out)
}

// End returns U+FFFD for each byte that waits, and forgets them.
func (t *Text) End() string {
	var out []byte
	for range t.rest {
		out = utf8.AppendRune(out, utf8.RuneError)
	}
	t.rest = nil
	return string(out)
}
