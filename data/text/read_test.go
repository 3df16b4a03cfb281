package text

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wantError fails unless an error has these words.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want %s", err, want)
	}
}

func TestAVocabularyThatIsDamagedIsAnError(t *testing.T) {
	toy := string(readOracle(t).Toy.Vocab)
	for _, c := range []struct{ vocabulary, merges, want string }{
		{toy, "#version: 0.2\nĠ t\nh e x\n", `m line 3: got "h e x", want two tokens with a space between`},
		{toy, "#version: 0.2\nĠ t\n\nhe\n", `m line 4: got "he", want two tokens with a space between`},
		{toy, "Ġ t\nq q\n", `m line 2: merge of "q" and "q": "qq" is not in the vocabulary`},
		{toy, "Ġ t\nh e\nĠ t\n", `m line 3: merge of "Ġ" and "t": got it twice, as merges 1 and 3`},
		{`{"a":0}`, "", `v: the vocabulary has no token for byte 0, which is written 'Ā'`},
		{`{"a":0,` + "\n" + `"b":-1}`, "", `v line 2 column 7: vocabulary: token "b": got the number -1, want 0 to 4194303`},
		{`{"a":0,"b":5000000}`, "", `token "b": got the number 5000000, want 0 to 4194303`},
		{`{"a":0,"b":1.5}`, "", `token "b": got the number "1.5", want a whole one`},
		{`{"a":0,"b":"1x"}`, "", `v line 1 column 16: vocabulary: token "b"`},
		{`{"a":0,"b":0}`, "", `tokens "a" and "b" both have the number 0`},
		{`{"a":0,"a":1}`, "", `vocabulary: got the key "a" twice`},
		{`{"":0}`, "", `token 0: got no characters, want at least one`},
		{`{"a":0`, "", `the file ends, want "}"`},
		{`{"a":0} 5`, "", `got 5 behind the end, want nothing`},
		{`["a"]`, "", `vocabulary: got [, want "{"`},
		{"{\"a\xff\":0}", "", "v: got bytes that are not UTF-8, want JSON"},
	} {
		_, err := parseVocabulary("v", []byte(c.vocabulary), "m", []byte(c.merges))
		wantError(t, err, c.want)
	}
}

func TestTokensThatNoMergeMakesAreSpecial(t *testing.T) {
	o := readOracle(t)
	vocabulary := strings.TrimSuffix(string(o.Toy.Vocab), "}") + `,"<|endoftext|>":300}`
	tokenizer, err := parseVocabulary("v", []byte(vocabulary), "m", []byte(strings.Join(o.Toy.Merges, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	if got := tokenizer.Specials(); len(got) != 1 || got[0] != "<|endoftext|>" {
		t.Errorf("got %q, want <|endoftext|> alone", got)
	}
	if id, ok := tokenizer.Special("<|endoftext|>"); id != 300 || !ok {
		t.Errorf("got %d, %v, want 300", id, ok)
	}
	if got, err := tokenizer.Token(300); got != "<|endoftext|>" || err != nil {
		t.Errorf("got %q, %v, want <|endoftext|>", got, err)
	}
	_, err = tokenizer.Token(298)
	wantError(t, err, "got 298, which is no token: the vocabulary has a gap there")
}

// changed is a tokenizer of testdata with one place of its text replaced.
func changed(t *testing.T, name, old, new string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), old) {
		t.Fatalf("%s has no %s", name, old)
	}
	return []byte(strings.Replace(string(data), old, new, 1))
}

func TestATokenizerOfAnotherKindIsRefusedByName(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"gpt2", `"normalizer":null`, `"normalizer":{"type":"NFC"}`, `f line 1 column `},
		{"gpt2", `"normalizer":null`, `"normalizer":{"type":"NFC"}`, `normalizer: got "NFC", want null`},
		{"gpt2", `"type":"BPE"`, `"type":"Unigram"`, `model: got type "Unigram", want BPE`},
		{"gpt2", `"add_prefix_space":false`, `"add_prefix_space":true`, `ByteLevel: add_prefix_space is true, want false`},
		{"gpt2", `"pre_tokenizer":{"type":"ByteLevel"`, `"pre_tokenizer":{"type":"Metaspace"`, `pre_tokenizer: got ["Metaspace"], want ByteLevel`},
		{"gpt2", `"use_regex":true`, `"use_regex":false`, `pre_tokenizer: got ["ByteLevel with use_regex false"], want ByteLevel`},
		{"gpt2", `"decoder":{"type":"ByteLevel"`, `"decoder":{"type":"WordPiece"`, `decoder: got "WordPiece", want ByteLevel`},
		{"gpt2", `"byte_fallback":false`, `"byte_fallback":true`, `model: got byte_fallback true, want none`},
		{"gpt2", `"dropout":null`, `"dropout":0.1`, `model: got dropout 0.1, want none`},
		{"gpt2", `"continuing_subword_prefix":null`, `"continuing_subword_prefix":"##"`, `model: got continuing_subword_prefix ##, want none`},
		{"gpt2", `"dropout":null`, `"scores":null`, `model: got the key "scores", which is not known`},
		{"gpt2", `"merges":["`, `"merges":["x`, `model: merge 1: merge of `},
		{"gpt2", `"merges":["`, `"merges":["a b c","`, `model: merge 1: got "a b c", want two tokens`},
		{"gpt2", `"merges":["`, `"merges":[7,"`, `model: merge 1: json: cannot unmarshal number`},
		{"gpt2", `"added_tokens":[{"id":0,`, `"added_tokens":[{"id":7,`, `added_tokens: tokens `},
		{"gpt2", `"version":"1.0"`, `"versions":"1.0"`, `got the key "versions", want those of a tokenizer.json`},
		{"llama3", `\\p{N}{1,3}`, `\\p{N}`, `pre_tokenizer: Split: got the pattern "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?`},
		{"llama3", `"Regex"`, `"String"`, `pre_tokenizer: Split: got no Regex`},
		{"llama3", `"Isolated"`, `"MergedWithPrevious"`, `Split: got behavior "MergedWithPrevious" and invert false, want Isolated and false`},
	} {
		_, err := parseTokenizer("f", changed(t, c.name, c.old, c.new))
		wantError(t, err, c.want)
	}
	for _, c := range []struct{ data, want string }{
		{`{}`, "text: f: has no model, want one of type BPE"},
		{`{"model":{"type":"BPE","vocab":{},"merges":[]}}`, `model: got merges in front of vocab`},
		{`{"pre_tokenizer":null}`, `pre_tokenizer: got null, want ByteLevel`},
	} {
		_, err := parseTokenizer("f", []byte(c.data))
		wantError(t, err, c.want)
	}
}

// GPT-2's own tokenizer.json is of a time before the model had a type, and ByteLevel a use_regex.
func TestAnOlderFileIsRead(t *testing.T) {
	data := string(changed(t, "gpt2", `"type":"BPE",`, ""))
	data = strings.ReplaceAll(data, `,"use_regex":true`, "")
	if strings.Contains(data, "use_regex") {
		t.Fatal("the file has a use_regex left")
	}
	tokenizer, err := parseTokenizer("f", []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	const text = "the training of the model"
	if got, want := tokenizer.Append(nil, text), tokenizerFor(t, "gpt2").Append(nil, text); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Llama 3's file and those that others made of cl100k say the same in two ways.
func TestASplitMayBeWrittenInTwoWays(t *testing.T) {
	data := changed(t, "llama3", `"behavior":"Isolated","invert":false`, `"behavior":"Removed","invert":true`)
	tokenizer, err := parseTokenizer("f", data)
	if err != nil {
		t.Fatal(err)
	}
	if tokenizer.pattern != cl100kPattern {
		t.Errorf("got pattern %d, want %d", tokenizer.pattern, cl100kPattern)
	}
}

func TestASpecialTokenThatTakesSpacesIsNotAllowed(t *testing.T) {
	tokenizer, err := parseTokenizer("f", changed(t, "gpt2", `"lstrip":false`, `"lstrip":true`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = tokenizer.Allow("<|end|>")
	wantError(t, err, `text: allow: "<|end|>": lstrip or rstrip is true, want false`)
}

func TestAFolderWithoutATokenizerIsAnError(t *testing.T) {
	folder := t.TempDir()
	_, err := Open(folder)
	wantError(t, err, "want tokenizer.json, or vocab.json and merges.txt, or encoder.json and vocab.bpe: file does not exist")
	if err := os.WriteFile(filepath.Join(folder, "tokenizer.model"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = Open(folder)
	wantError(t, err, "tokenizer.model is SentencePiece's, which is another kind")
	_, err = Open(filepath.Join(folder, "none"))
	wantError(t, err, "no such file or directory")
}

// Files of strangers make errors, or tokenizers that give texts back.
func checkRead(t *testing.T, tokenizer *BPE, err error) {
	t.Helper()
	if err != nil {
		if tokenizer != nil || !strings.HasPrefix(err.Error(), "text: ") {
			t.Errorf("got %v with error %v", tokenizer, err)
		}
		return
	}
	const text = "hello  wörld's 123\n<|end|>"
	if got, err := Decode(tokenizer, tokenizer.Append(nil, text)); got != text || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, text)
	}
	if special, err := tokenizer.Allow(tokenizer.Specials()...); err == nil {
		if got, err := Decode(special, special.Append(nil, text)); got != text || err != nil {
			t.Errorf("with special tokens: got %q, %v, want %q", got, err, text)
		}
	}
}

func FuzzReadVocabulary(f *testing.F) {
	o := readOracle(f)
	f.Add(string(o.Toy.Vocab), strings.Join(o.Toy.Merges, "\n"))
	f.Add(strings.TrimSuffix(string(o.Toy.Vocab), "}")+`,"<|end|>":300}`, "#version: 0.2\r\nh e\r\n")
	f.Add(`{"a":0}`, "a a")
	f.Fuzz(func(t *testing.T, vocabulary, merges string) {
		tokenizer, err := parseVocabulary("v", []byte(vocabulary), "m", []byte(merges))
		checkRead(t, tokenizer, err)
	})
}

func FuzzReadTokenizer(f *testing.F) {
	for _, name := range []string{"gpt2", "llama3"} {
		data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add(`{"pre_tokenizer":{"type":"ByteLevel"},"model":{"vocab":{"a":0},"merges":[["a","a"]]}}`)
	f.Fuzz(func(t *testing.T, data string) {
		tokenizer, err := parseTokenizer("f", []byte(data))
		checkRead(t, tokenizer, err)
	})
}

func TestBothFormsOfMergesAreRead(t *testing.T) {
	for name, want := range map[string]string{"gpt2": `"merges":["`, "llama3": `"merges":[["`} {
		data := changed(t, name, want, want)
		var file struct{ Model struct{ Merges []any } }
		if err := json.Unmarshal(data, &file); err != nil {
			t.Fatal(err)
		}
		if got := len(tokenizerFor(t, name).merges); got != len(file.Model.Merges) || got == 0 {
			t.Errorf("%s: got %d merges, want %d", name, got, len(file.Model.Merges))
		}
	}
}
