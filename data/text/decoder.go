package text

import (
	"fmt"
	"unicode/utf8"
)

// A Decoder makes text of tokens that come one after the other, as a model writes them. It is for
// one goroutine.
type Decoder struct {
	tokenizer Tokenizer

	// rest are the bytes of a character that is not whole yet.
	rest []byte
}

// NewDecoder returns a Decoder.
func NewDecoder(t Tokenizer) *Decoder { return &Decoder{tokenizer: t} }

// Add returns the characters that are whole with a token, which may be none. Bytes that are part of
// no character become U+FFFD, as many of them as Go finds when it ranges over a string.
func (d *Decoder) Add(token int32) (string, error) {
	s, err := d.tokenizer.Token(token)
	if err != nil {
		return "", fmt.Errorf("text: decoder: %w", err)
	}
	d.rest = append(d.rest, s...)
	var out []byte
	at := 0
	for at < len(d.rest) && utf8.FullRune(d.rest[at:]) {
		c, n := utf8.DecodeRune(d.rest[at:])
		out = utf8.AppendRune(out, c)
		at += n
	}
	d.rest = append(d.rest[:0], d.rest[at:]...)
	return string(out), nil
}

// End returns U+FFFD for each byte that still waits for the rest of its character. The decoder is
// then as a new one.
func (d *Decoder) End() string {
	var out []byte
	for range d.rest {
		out = utf8.AppendRune(out, utf8.RuneError)
	}
	d.rest = d.rest[:0]
	return string(out)
}
