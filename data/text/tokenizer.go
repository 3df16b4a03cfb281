package text

import "fmt"

// A Tokenizer makes tokens of text. Its methods may be called from several goroutines at once.
type Tokenizer interface {
	// Append appends the tokens of a text to dst and returns it. Special tokens are found only
	// if the tokenizer was made to.
	Append(dst []int32, text string) []int32
	// Token returns the bytes of a token, which may be a part of a character. A number that is
	// no token is an error.
	Token(id int32) (string, error)
	// Size is the size of the vocabulary: one more than the largest number of a token.
	Size() int
}

// Decode returns the text of tokens.
func Decode(t Tokenizer, tokens []int32) (string, error) {
	var out []byte
	for i, id := range tokens {
		s, err := t.Token(id)
		if err != nil {
			return "", fmt.Errorf("text: decode: token %d of %d: %w", i, len(tokens), err)
		}
		out = append(out, s...)
	}
	return string(out), nil
}

// Bytes is the tokenizer whose tokens are the bytes of a text: 256 of them.
type Bytes struct{}

var _ Tokenizer = Bytes{}

// Append implements Tokenizer.
func (Bytes) Append(dst []int32, text string) []int32 {
	for i := range len(text) {
		dst = append(dst, int32(text[i]))
	}
	return dst
}

// Token implements Tokenizer.
func (Bytes) Token(id int32) (string, error) {
	if id < 0 || id >= 256 {
		return "", unknownToken(id, 256)
	}
	return allBytes[id : id+1], nil
}

// Size implements Tokenizer.
func (Bytes) Size() int { return 256 }

// cut implements cutter: bytes may be cut anywhere.
func (Bytes) cut(text string) int { return len(text) }

// allBytes has each byte once.
var allBytes = func() string {
	var p [256]byte
	for i := range p {
		p[i] = byte(i)
	}
	return string(p[:])
}()

// unknownToken is the error of a number that is no token.
func unknownToken(id int32, size int) error {
	if id < 0 || int(id) >= size {
		return fmt.Errorf("got %d, want 0 to %d, as the vocabulary has %d", id, size-1, size)
	}
	return fmt.Errorf("got %d, which is no token: the vocabulary has a gap there", id)
}
