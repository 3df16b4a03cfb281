package text

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// A recorder keeps what is written to it.
type recorder struct {
	tokens []int32
	writes int
	err    error
}

func (r *recorder) WriteTokens(tokens []int32) error {
	r.tokens = append(r.tokens, tokens...)
	r.writes++
	return r.err
}

func wantCopy(t *testing.T, tokenizer Tokenizer, text string, step int) {
	t.Helper()
	var r recorder
	n, err := copyTokens(&r, strings.NewReader(text), tokenizer, step)
	if want := tokenizer.Append(nil, text); err != nil || n != int64(len(want)) || !slices.Equal(r.tokens, want) {
		t.Errorf("steps of %d: got %d tokens, %v, want %d: %v and %v of %q", step, n, err, len(want), r.tokens, want, text)
	}
}

func copied(t testing.TB) (tokenizers []Tokenizer) {
	t.Helper()
	for _, name := range []string{"gpt2", "llama3"} {
		plain := tokenizerFor(t, name)
		special, err := plain.Allow("<|end|>", "<|pad|>")
		if err != nil {
			t.Fatal(err)
		}
		tokenizers = append(tokenizers, plain, special)
	}
	return append(tokenizers, Bytes{}, struct{ Tokenizer }{tokenizers[0]})
}

func TestCopyGivesTheTokensOfTheWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 30 {
		text := randomText(r, 500)
		for _, tokenizer := range copied(t) {
			wantCopy(t, tokenizer, text, 1+r.IntN(60))
		}
	}
}

func FuzzCopy(f *testing.F) {
	f.Add("the end<|end|>of <|en the\n\n  end 12 x<|pad|>", uint8(5))
	f.Add("aé\xc3 b🙂", uint8(1))
	tokenizers := copied(f)
	f.Fuzz(func(t *testing.T, text string, step uint8) {
		for _, tokenizer := range tokenizers {
			wantCopy(t, tokenizer, text, 1+int(step))
		}
	})
}

func TestCopyWritesAsItReads(t *testing.T) {
	var r recorder
	text := strings.Repeat("all the words of a text ", 1000)
	if _, err := copyTokens(&r, strings.NewReader(text), tokenizerFor(t, "gpt2"), 1000); err != nil || r.writes < 20 {
		t.Errorf("got %d writes, %v, want at least 20", r.writes, err)
	}
}

func TestCopyEndsWithTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	_, err := Copy(&recorder{}, iotest.ErrReader(broken), Bytes{})
	wantError(t, err, "text: copy: after 0 tokens: broken")
	_, err = Copy(&recorder{err: broken}, strings.NewReader("a"), Bytes{})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	_, err = Copy(&recorder{}, strings.NewReader(strings.Repeat("-", copyMost+10)), tokenizerFor(t, "gpt2"))
	wantError(t, err, "without a letter or number that another character follows: the file is no text")
}
