package text

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// randomText has words, spaces and bytes that are no character.
func randomText(r *rand.Rand, n int) string {
	parts := []string{"the", " the", "ing", " of", "\n", "  ", "'s", "1", "23", "é", "日本", "🙂", "<|end|>", "<|", "|>", "end", "\xff", "\xc3", ".", " training", "\r\n"}
	var s strings.Builder
	for s.Len() < n {
		s.WriteString(parts[r.IntN(len(parts))])
	}
	return s.String()
}

func TestALongPieceIsMergedAsAShortOne(t *testing.T) {
	tokenizer := tokenizerFor(t, "gpt2")
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		piece := randomText(r, 1+r.IntN(300))
		var m merger
		long := m.merge(tokenizer.vocabulary, nil, piece)
		m.tokens, m.found = m.tokens[:0], m.found[:0]
		for i := range len(piece) {
			m.tokens = append(m.tokens, tokenizer.ofByte[piece[i]])
		}
		for i := range len(piece) - 1 {
			m.found = append(m.found, tokenizer.merge(m.tokens[i], m.tokens[i+1]))
		}
		if short := m.mergeShort(tokenizer.vocabulary); !slices.Equal(long, short) {
			t.Fatalf("%q: got %v, want %v", piece, long, short)
		}
	}
}

// A million letters without a space took hours if all pairs were looked through for each merge.
func TestALongPieceTakesSeconds(t *testing.T) {
	tokenizer := tokenizerFor(t, "gpt2")
	text := strings.Repeat("thingsofthe", 100_000)
	begin := time.Now()
	tokens := tokenizer.Append(nil, text)
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("%d bytes took %v", len(text), took)
	}
	if got, err := Decode(tokenizer, tokens); got != text || err != nil {
		t.Errorf("got another text back, %v", err)
	}
}

func FuzzDecodeGivesTheTextBack(f *testing.F) {
	for _, c := range readOracle(f).Cases {
		f.Add(c.Text)
	}
	f.Add("<|end|>a<|pad|>\xff\xc3(")
	var tokenizers []Tokenizer
	for _, name := range []string{"gpt2", "llama3"} {
		t := tokenizerFor(f, name)
		special, err := t.Allow("<|end|>", "<|pad|>")
		if err != nil {
			f.Fatal(err)
		}
		tokenizers = append(tokenizers, t, special)
	}
	tokenizers = append(tokenizers, Bytes{})
	f.Fuzz(func(t *testing.T, text string) {
		for i, tokenizer := range tokenizers {
			tokens := tokenizer.Append(nil, text)
			if got, err := Decode(tokenizer, tokens); got != text || err != nil {
				t.Errorf("tokenizer %d: %q: got %q, %v back of %v", i, text, got, err, tokens)
			}
		}
	})
}

func TestSpecialTokensAreFoundOnlyIfAllowed(t *testing.T) {
	tokenizer := tokenizerFor(t, "gpt2")
	end, ok := tokenizer.Special("<|end|>")
	if !ok {
		t.Fatal("<|end|> is not special")
	}
	text := "a<|end|>b<|pad|>"
	if slices.Contains(tokenizer.Append(nil, text), end) {
		t.Error("a text made <|end|>, which was not allowed")
	}
	allowed, err := tokenizer.Allow("<|end|>")
	if err != nil {
		t.Fatal(err)
	}
	tokens := allowed.Append(nil, text)
	pad, _ := tokenizer.Special("<|pad|>")
	if tokens[1] != end || slices.Contains(tokens, pad) {
		t.Errorf("got %v, want %d second and no %d", tokens, end, pad)
	}
	_, err = tokenizer.Allow("<|endoftext|>")
	wantError(t, err, `text: allow: got "<|endoftext|>", want a special token: ["<|end|>" "<|pad|>"]`)
}

func TestTheLongestSpecialTokenCounts(t *testing.T) {
	f := newFinder(map[string]int32{"<a>": 1, "<a><b>": 2, "[x]": 3})
	for _, c := range []struct {
		text    string
		at, end int
		id      int32
	}{{"..<a><b>", 2, 8, 2}, {"<a><c>", 0, 3, 1}, {"<a[x]", 2, 5, 3}, {"<", 1, 1, 0}, {"", 0, 0, 0}} {
		if at, end, id := f.find(c.text); at != c.at || end != c.end || id != c.id {
			t.Errorf("%q: got %d to %d, %d, want %d to %d, %d", c.text, at, end, id, c.at, c.end, c.id)
		}
	}
}

// The memory of pieces is forgotten when it is full, and no token changes by that.
func TestTheMemoryOfPiecesIsBounded(t *testing.T) {
	tokenizer := tokenizerFor(t, "gpt2")
	e, fresh := newEncoder(), newEncoder()
	for i := range keptPieces + 5000 {
		var word [8]byte
		for k := range word {
			word[k] = 'a' + byte(i>>(2*k)&15)
		}
		got := e.append(tokenizer.vocabulary, nil, string(word[:]))
		if len(e.known) > keptPieces || len(e.tokens) > keptTokens {
			t.Fatalf("got %d pieces of %d tokens, want at most %d of %d", len(e.known), len(e.tokens), keptPieces, keptTokens)
		}
		if i%97 == 0 {
			clear(fresh.known)
			if want := fresh.append(tokenizer.vocabulary, nil, string(word[:])); !slices.Equal(got, want) {
				t.Fatalf("%s: got %v, want %v", word, got, want)
			}
		}
	}
	long := strings.Repeat("x", keptLength+1)
	e.append(tokenizer.vocabulary, nil, long)
	if _, ok := e.known[long]; ok {
		t.Errorf("a piece of %d bytes is kept", len(long))
	}
}

func TestATokenizerServesManyGoroutines(t *testing.T) {
	tokenizer := tokenizerFor(t, "llama3")
	text := randomText(rand.New(rand.NewPCG(3, 4)), 20_000)
	want := tokenizer.Append(nil, text)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 5 {
				if got := tokenizer.Append(nil, text); !slices.Equal(got, want) {
					t.Error("got other tokens")
				}
			}
		})
	}
	group.Wait()
}

func TestANumberThatIsNoTokenIsAnError(t *testing.T) {
	for _, c := range []struct {
		tokenizer Tokenizer
		tokens    []int32
		want      string
	}{
		{Bytes{}, []int32{65, 256}, "text: decode: token 1 of 2: got 256, want 0 to 255, as the vocabulary has 256"},
		{tokenizerFor(t, "gpt2"), []int32{-1}, "text: decode: token 0 of 1: got -1, want 0 to 419, as the vocabulary has 420"},
	} {
		_, err := Decode(c.tokenizer, c.tokens)
		wantError(t, err, c.want)
	}
}

func BenchmarkAppend(b *testing.B) {
	tokenizer := tokenizerFor(b, "gpt2")
	text := strings.Repeat("We know what we are, but know not what we may be. The training of the model goes on.\n", 12_000)
	b.SetBytes(int64(len(text)))
	var tokens []int32
	for b.Loop() {
		tokens = tokenizer.Append(tokens[:0], text)
	}
}
