package text

import (
	"errors"
	"fmt"
	"io"
)

// A TokenWriter takes tokens, such as a data.TokenWriter.
type TokenWriter interface {
	// WriteTokens must not keep tokens after it returns.
	WriteTokens(tokens []int32) error
}

// A cutter is a tokenizer of which a text's beginning can be encoded before its rest is known.
type cutter interface {
	// cut returns a place of a text, which goes on, such that the tokens up to there and those
	// from there on are together those of the whole; 0: there is none.
	cut(text string) int
}

const (
	// copyBytes is how much of a text is encoded at a time.
	copyBytes = 1 << 20
	// copyMost is how much is read at most in search of a place to cut. A text has such places
	// after each word.
	copyMost = 64 << 20
)

// Copy encodes all of a text, of any length, and writes the tokens. It returns how many there are.
// They are the same as if the text were encoded as a whole.
func Copy(w TokenWriter, r io.Reader, t Tokenizer) (n int64, err error) {
	return copyTokens(w, r, t, copyBytes)
}

func copyTokens(w TokenWriter, r io.Reader, t Tokenizer, step int) (n int64, err error) {
	var tokens []int32
	write := func(text []byte) error {
		tokens = t.Append(tokens[:0], string(text))
		n += int64(len(tokens))
		return w.WriteTokens(tokens)
	}
	c, cuts := t.(cutter)
	var text []byte
	for {
		// Twice as much where there is no place to cut.
		had := len(text)
		text = append(text, make([]byte, max(step, had))...)
		got, err := io.ReadFull(r, text[had:])
		text = text[:had+got]
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return n, write(text)
		}
		if err != nil {
			return n, fmt.Errorf("text: copy: after %d tokens: %w", n, err)
		}
		if !cuts {
			continue
		}
		cut := c.cut(string(text))
		if cut == 0 && len(text) >= copyMost {
			return n, fmt.Errorf("text: copy: after %d tokens: got %d bytes without a letter or number that another character follows: the file is no text", n, len(text))
		}
		if cut > 0 {
			if err := write(text[:cut]); err != nil {
				return n, err
			}
		}
		text = append(text[:0], text[cut:]...)
	}
}
