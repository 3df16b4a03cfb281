package text

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An array is one of the oracles'.
type array struct{ Data []int32 }

// A sample is a text, and what becomes of it.
type sample struct {
	Text   string
	Pieces []string
	IDs    array

	// Special and Plain are tokens with special tokens found, and not.
	Special, Plain []int32
}

// oracle is bpe.json.
type oracle struct {
	ByteToCodePoint array `json:"byte_to_code_point"`
	Toy             struct {
		Merges []string
		Vocab  json.RawMessage
		Texts  []sample
	}
	Cases []sample
}

func readJSON(t testing.TB, name string, v any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
}

func readOracle(t testing.TB) (o oracle) {
	t.Helper()
	readJSON(t, "bpe.json", &o)
	if len(o.Cases) != 35 || len(o.Toy.Texts) == 0 {
		t.Fatalf("bpe.json: got %d texts and %d of the toy, want 35 and more than 0", len(o.Cases), len(o.Toy.Texts))
	}
	return o
}

// toyFiles writes the toy's files under these names.
func toyFiles(t testing.TB, o oracle, vocabulary, merges string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, data := range map[string]string{vocabulary: string(o.Toy.Vocab), merges: "#version: 0.2\n" + strings.Join(o.Toy.Merges, "\n") + "\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(data), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func pieces(p pattern, text string) (pieces []string) {
	for at := 0; at < len(text); {
		end := p.next(text, at)
		pieces = append(pieces, text[at:end])
		at = end
	}
	return pieces
}

func TestBytesAreWrittenAsGPT2WritesThem(t *testing.T) {
	for b, want := range readOracle(t).ByteToCodePoint.Data {
		if characterOf[b] != want || byteOf[want] != int16(b) {
			t.Errorf("byte %d: got %q and back %d, want %q", b, characterOf[b], byteOf[want], want)
		}
	}
}

func TestPiecesAreGPT2s(t *testing.T) {
	for _, c := range readOracle(t).Cases {
		if got := pieces(gpt2Pattern, c.Text); !slices.Equal(got, c.Pieces) {
			t.Errorf("%q: got %q, want %q", c.Text, got, c.Pieces)
		}
	}
}

func TestAToyVocabularyFromBothNames(t *testing.T) {
	o := readOracle(t)
	for _, names := range [][2]string{{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}} {
		tokenizer, err := Open(toyFiles(t, o, names[0], names[1]))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range o.Toy.Texts {
			if diff := cmp.Diff(s.IDs.Data, tokenizer.Append(nil, s.Text)); diff != "" {
				t.Errorf("%q: tokens differ (-want +got):\n%s", s.Text, diff)
			}
			if got, err := Decode(tokenizer, s.IDs.Data); got != s.Text || err != nil {
				t.Errorf("decode: got %q, %v, want %q", got, err, s.Text)
			}
		}
	}
}

// tokenizerFor reads a tokenizer of testdata.
func tokenizerFor(t testing.TB, name string) *BPE {
	t.Helper()
	tokenizer, err := Open(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return tokenizer
}

func TestTokensAreThoseOfHuggingFace(t *testing.T) {
	var all map[string]json.RawMessage
	readJSON(t, "encodings.json", &all)
	for _, name := range []string{"gpt2", "llama3"} {
		var samples []sample
		if err := json.Unmarshal(all[name], &samples); err != nil || len(samples) < 40 {
			t.Fatalf("%s: got %d texts, %v", name, len(samples), err)
		}
		plain := tokenizerFor(t, name)
		special, err := plain.Allow(plain.Specials()...)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range samples {
			if diff := cmp.Diff(s.Plain, plain.Append([]int32{}, s.Text)); diff != "" {
				t.Errorf("%s: %q: tokens differ (-want +got):\n%s", name, s.Text, diff)
			}
			if diff := cmp.Diff(s.Special, special.Append([]int32{}, s.Text)); diff != "" {
				t.Errorf("%s: %q: tokens with special ones differ (-want +got):\n%s", name, s.Text, diff)
			}
			if got, err := Decode(plain, s.Special); got != s.Text || err != nil {
				t.Errorf("%s: decode: got %q, %v, want %q", name, got, err, s.Text)
			}
		}
	}
}
