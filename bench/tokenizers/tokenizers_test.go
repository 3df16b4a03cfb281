package tokenizers

import (
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tiktoken-go/tokenizer"
	"github.com/tiktoken-go/tokenizer/codec"

	"github.com/paragon-train/paragon/data/text"
)

// An encoding is one of tiktoken-go's vocabularies: its tokens in the order of their ranks.
type encoding struct {
	codec  tokenizer.Codec
	tokens []string

	// special are the numbers of special tokens, which the codec does not give.
	special map[string]int
}

// newEncoding lists the tokens of a codec.
func newEncoding(t testing.TB, c tokenizer.Codec, size int, special map[string]int) *encoding {
	t.Helper()
	e := &encoding{codec: c, special: special}
	for id := range size {
		s, err := c.Decode([]uint{uint(id)})
		if err != nil {
			t.Fatalf("token %d: %v", id, err)
		}
		e.tokens = append(e.tokens, s)
	}
	return e
}

// letters are the characters that GPT-2's files write bytes as.
var letters = func() (letters [256]string) {
	next := 256
	for b := range letters {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			letters[b] = string(rune(b))
		} else {
			letters[b] = string(rune(next))
			next++
		}
	}
	return letters
}()

func written(token string) string {
	var s strings.Builder
	for i := range len(token) {
		s.WriteString(letters[token[i]])
	}
	return s.String()
}

// merges returns, for each token of more than one byte, the pair of tokens that is merged to it.
// tiktoken's vocabularies have ranks alone, so the token's bytes are merged by all lower ranks: the
// two tokens that are left are the pair.
func (e *encoding) merges(t testing.TB) (merges [][2]string) {
	t.Helper()
	ranks := make(map[string]int, len(e.tokens))
	for id, token := range e.tokens {
		ranks[token] = id
	}
	for id, token := range e.tokens {
		if len(token) == 1 {
			continue
		}
		parts := strings.Split(token, "")
		parts = parts[:0]
		for i := range len(token) {
			parts = append(parts, token[i:i+1])
		}
		for len(parts) > 2 {
			best, at := id, -1
			for i := range len(parts) - 1 {
				if rank, ok := ranks[parts[i]+parts[i+1]]; ok && rank < best {
					best, at = rank, i
				}
			}
			if at < 0 {
				break
			}
			parts[at] += parts[at+1]
			parts = slices.Delete(parts, at+1, at+2)
		}
		if len(parts) != 2 {
			t.Fatalf("token %d, %q: its bytes merge to %q, want two parts", id, token, parts)
		}
		merges = append(merges, [2]string{written(parts[0]), written(parts[1])})
	}
	return merges
}

func (e *encoding) vocabulary() map[string]int {
	v := make(map[string]int)
	for id, token := range e.tokens {
		v[written(token)] = id
	}
	return v
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

func asJSON(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// gpt2 is GPT-2's vocabulary, written as vocab.json and merges.txt and read back.
var gpt2 = sync.OnceValue(func() *encoding { return &encoding{codec: codec.NewR50kBase()} })

func readGPT2(t testing.TB) (*encoding, *text.BPE) {
	t.Helper()
	e := gpt2()
	if e.tokens == nil {
		*e = *newEncoding(t, e.codec, 50256, map[string]int{"<|endoftext|>": 50256})
	}
	folder := t.TempDir()
	vocabulary := e.vocabulary()
	for token, id := range e.special {
		vocabulary[token] = id
	}
	write(t, filepath.Join(folder, "vocab.json"), asJSON(t, vocabulary))
	var lines strings.Builder
	lines.WriteString("#version: 0.2\n")
	for _, m := range e.merges(t) {
		fmt.Fprintf(&lines, "%s %s\n", m[0], m[1])
	}
	write(t, filepath.Join(folder, "merges.txt"), []byte(lines.String()))
	bpe, err := text.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	return e, bpe
}

// cl100kExpression is the pattern, as Llama 3's tokenizer.json has it.
const cl100kExpression = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// readCL100K writes cl100k as a tokenizer.json and reads it back.
func readCL100K(t testing.TB) (*encoding, *text.BPE) {
	t.Helper()
	e := newEncoding(t, codec.NewCl100kBase(), 100256, nil)
	type object = map[string]any
	file := object{
		"added_tokens": []object{{"id": 100257, "content": "<|endoftext|>", "special": true}},
		"pre_tokenizer": object{"type": "Sequence", "pretokenizers": []object{
			{"type": "Split", "pattern": object{"Regex": cl100kExpression}, "behavior": "Isolated", "invert": false},
			{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
		}},
	}
	data := asJSON(t, file)
	// The vocabulary has to stand in front of the merges.
	model := slices.Concat([]byte(`,"model":{"type":"BPE","vocab":`), asJSON(t, e.vocabulary()), []byte(`,"merges":`), asJSON(t, e.merges(t)), []byte("}}"))
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	write(t, path, append(data[:len(data)-1], model...))
	bpe, err := text.ReadTokenizer(path)
	if err != nil {
		t.Fatal(err)
	}
	return e, bpe
}

// wantSame fails unless both encode a text alike.
func wantSame(t *testing.T, e *encoding, bpe *text.BPE, s string) {
	t.Helper()
	ids, _, err := e.codec.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	got := bpe.Append(nil, s)
	same := len(got) == len(ids)
	for i := range ids {
		same = same && int(got[i]) == int(ids[i])
	}
	if !same {
		t.Errorf("%q: got %v, want tiktoken's %v", s, got, ids)
	}
	if back, err := text.Decode(bpe, got); back != s || err != nil {
		t.Errorf("decode: got %q, %v, want %q", back, err, s)
	}
}

// The oracles' texts with GPT-2's numbers.
func TestNumbersAreGPT2s(t *testing.T) {
	data, err := os.ReadFile("../../data/text/testdata/bpe.json")
	if err != nil {
		t.Fatal(err)
	}
	var oracle struct {
		Cases []struct {
			Text string
			GPT2 struct{ Data []int32 }
		}
	}
	if err := json.Unmarshal(data, &oracle); err != nil {
		t.Fatal(err)
	}
	e, bpe := readGPT2(t)
	for _, c := range oracle.Cases {
		if got := bpe.Append([]int32{}, c.Text); !slices.Equal(got, c.GPT2.Data) {
			t.Errorf("%q: got %v, want %v", c.Text, got, c.GPT2.Data)
		}
		wantSame(t, e, bpe, c.Text)
	}
	if id, ok := bpe.Special("<|endoftext|>"); id != 50256 || !ok || bpe.Size() != 50257 {
		t.Errorf("<|endoftext|>: got %d, %v of %d, want 50256 of 50257", id, ok, bpe.Size())
	}
}

// goRoot is where Go is installed.
func goRoot(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("Go's source is the text, and Go is not installed: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// sourceText is Go's source, with its comments: English, numbers, operators, and tables of many
// scripts.
func sourceText(t testing.TB, most int, packages ...string) string {
	t.Helper()
	var s strings.Builder
	root := goRoot(t)
	for _, p := range packages {
		names, err := filepath.Glob(filepath.Join(root, "src", p, "*.go"))
		if err != nil || len(names) == 0 {
			t.Skipf("Go's source is not installed: %s has no files (%v)", p, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			s.Write(data)
			if s.Len() >= most {
				return strings.ToValidUTF8(s.String()[:most], "")
			}
		}
	}
	return s.String()
}

func TestSourceHasTiktokensTokens(t *testing.T) {
	s := sourceText(t, 1<<20, "strconv", "unicode/utf8", "html", "strings", "encoding/json")
	e, bpe := readGPT2(t)
	wantSame(t, e, bpe, s)
	e, bpe = readCL100K(t)
	wantSame(t, e, bpe, s)
}

func TestMixedTextHasTiktokensTokens(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	parts := []string{
		"the", " The", "ing", "'s", "'LL", "'re", " '", "1", "2345", " 6", "½", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "é", "e\u0301", " naïve", "日本語", "한국어", " Привет", "🙂", "👍🏽", "_", "(", ");", "!!!", "---", "/", "<|endoftext|>", " x",
	}
	encodings := []func(testing.TB) (*encoding, *text.BPE){readGPT2, readCL100K}
	for _, read := range encodings {
		e, bpe := read(t)
		for range 3000 {
			var s strings.Builder
			for range 1 + r.IntN(12) {
				s.WriteString(parts[r.IntN(len(parts))])
			}
			wantSame(t, e, bpe, s.String())
		}
	}
}

func TestLongPiecesHaveTiktokensTokens(t *testing.T) {
	e, bpe := readGPT2(t)
	r := rand.New(rand.NewPCG(3, 4))
	for _, alphabet := range []string{" ", "a", "ab", "etaoinshrdlu", "=-"} {
		piece := make([]byte, 5000)
		for i := range piece {
			piece[i] = alphabet[r.IntN(len(alphabet))]
		}
		wantSame(t, e, bpe, string(piece))
	}
}

// englishText is prose: the comments of Go's standard library.
func englishText(t testing.TB, most int) string {
	t.Helper()
	var s strings.Builder
	root := goRoot(t)
	for _, p := range []string{"net/http", "os", "go/ast", "go/types", "runtime", "crypto/tls", "database/sql", "encoding/json", "reflect", "testing", "time", "text/template", "fmt", "io", "sync", "strings", "bytes", "math/big", "math", "net", "cmd/go/internal/modload", "cmd/compile/internal/ssa"} {
		names, err := filepath.Glob(filepath.Join(root, "src", p, "*.go"))
		if err != nil || len(names) == 0 {
			t.Skipf("Go's source is not installed: %s has no files (%v)", p, err)
		}
		for _, name := range names {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range f.Comments[min(1, len(f.Comments)):] {
				if prose := c.Text(); strings.Count(prose, " ") > 20 {
					s.WriteString(prose)
				}
			}
			if s.Len() >= most {
				return s.String()[:most]
			}
		}
	}
	return s.String()
}

func BenchmarkEncode(b *testing.B) {
	prose := englishText(b, 2<<20)
	b.Logf("%d bytes of prose", len(prose))
	for name, read := range map[string]func(testing.TB) (*encoding, *text.BPE){"gpt2": readGPT2, "cl100k": readCL100K} {
		e, bpe := read(b)
		b.Run("vocabulary="+name+"/of=paragon", func(b *testing.B) {
			b.SetBytes(int64(len(prose)))
			for b.Loop() {
				bpe.Append(nil, prose)
			}
		})
		b.Run("vocabulary="+name+"/of=tiktoken-go", func(b *testing.B) {
			b.SetBytes(int64(len(prose)))
			for b.Loop() {
				if _, _, err := e.codec.Encode(prose); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFirst encodes each text with an encoder that knows no piece yet.
func BenchmarkFirst(b *testing.B) {
	prose := englishText(b, 2<<20)
	_, bpe := readGPT2(b)
	b.SetBytes(int64(len(prose)))
	for b.Loop() {
		b.StopTimer()
		// The pool of encoders is emptied by two collections.
		runtime.GC()
		runtime.GC()
		b.StartTimer()
		bpe.Append(nil, prose)
	}
}

func BenchmarkOpen(b *testing.B) {
	e, _ := readGPT2(b)
	folder := b.TempDir()
	write(b, filepath.Join(folder, "vocab.json"), asJSON(b, e.vocabulary()))
	var lines strings.Builder
	for _, m := range e.merges(b) {
		fmt.Fprintf(&lines, "%s %s\n", m[0], m[1])
	}
	write(b, filepath.Join(folder, "merges.txt"), []byte(lines.String()))
	for b.Loop() {
		if _, err := text.Open(folder); err != nil {
			b.Fatal(err)
		}
	}
}
