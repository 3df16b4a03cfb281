package text

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// ReadTokenizer reads a tokenizer.json, as Hugging Face's tokenizers writes it, that holds a
// byte-level BPE: GPT-2's, or one with the pattern of Llama 3 and cl100k. Another model, pattern or
// normalizer is an error that names it, because it would give other tokens. What a post-processor
// would add, such as <|begin_of_text|> in front, is left to the program.
func ReadTokenizer(path string) (*BPE, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return parseTokenizer(path, data)
}

// A tokenizerFile is what a tokenizer.json says, as far as it was read.
type tokenizerFile struct {
	*jsonFile
	builder *builder

	pattern      pattern
	ignoreMerges bool
	added        []addedToken

	hasModel, hasPattern bool
}

// An addedToken is an element of added_tokens.
type addedToken struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
}

// special is the token as a special one.
func (a *addedToken) special() special {
	s := special{id: int32(a.ID)}
	switch {
	case a.SingleWord:
		s.refused = "single_word is true, want false: it would be found only between spaces"
	case a.LStrip, a.RStrip:
		s.refused = "lstrip or rstrip is true, want false: it would take the white space beside it"
	}
	return s
}

func parseTokenizer(name string, data []byte) (*BPE, error) {
	j, err := newJSONFile(name, data)
	if err != nil {
		return nil, err
	}
	f := &tokenizerFile{jsonFile: j, builder: newBuilder()}
	if err := f.object("tokenizer", f.section); err != nil {
		return nil, err
	}
	if err := f.end(); err != nil {
		return nil, err
	}
	switch {
	case !f.hasModel:
		return nil, fmt.Errorf("text: %s: has no model, want one of type BPE", name)
	case !f.hasPattern:
		return nil, fmt.Errorf("text: %s: has no pre_tokenizer, want ByteLevel, or Split and ByteLevel", name)
	}
	for i := range f.added {
		a := &f.added[i]
		if err := f.builder.add(a.Content, a.ID); err != nil {
			return nil, fmt.Errorf("text: %s: added_tokens: %w", name, err)
		}
		f.builder.added[a.Content] = a.special()
	}
	v, err := f.builder.vocabulary(f.pattern, f.ignoreMerges)
	if err != nil {
		return nil, fmt.Errorf("text: %s: %w", name, err)
	}
	return &BPE{vocabulary: v}, nil
}

// section reads the value of a key of the file.
func (f *tokenizerFile) section(key string) error {
	switch key {
	case "version", "truncation", "padding", "post_processor":
		return f.skip(key)
	case "added_tokens":
		return f.value(key, &f.added)
	case "normalizer":
		return f.normalizer()
	case "pre_tokenizer":
		return f.preTokenizer()
	case "decoder":
		return f.decoder()
	case "model":
		f.hasModel = true
		return f.object(key, f.model)
	}
	return f.errorf("got the key %q, want those of a tokenizer.json", key)
}

func (f *tokenizerFile) normalizer() error {
	var n *struct{ Type string }
	if err := f.value("normalizer", &n); err != nil {
		return err
	}
	if n != nil {
		return f.errorf("normalizer: got %q, want null: text would have to be normalised first", n.Type)
	}
	return nil
}

func (f *tokenizerFile) decoder() error {
	var d *struct{ Type string }
	if err := f.value("decoder", &d); err != nil {
		return err
	}
	if d != nil && d.Type != "ByteLevel" {
		return f.errorf("decoder: got %q, want ByteLevel, as byte-level BPE has", d.Type)
	}
	return nil
}

// A preTokenizer is that of a file: the fields of all types.
type preTokenizer struct {
	Type           string
	PreTokenizers  []preTokenizer `json:"pretokenizers"`
	AddPrefixSpace bool           `json:"add_prefix_space"`
	UseRegex       *bool          `json:"use_regex"`
	Behavior       string
	Invert         bool
	Pattern        struct{ Regex, String *string }
}

// useRegex reports whether a ByteLevel cuts by GPT-2's pattern, as it does by default.
func (p *preTokenizer) useRegex() bool { return p.UseRegex == nil || *p.UseRegex }

func (f *tokenizerFile) preTokenizer() error {
	var p *preTokenizer
	if err := f.value("pre_tokenizer", &p); err != nil {
		return err
	}
	if p == nil {
		return f.errorf("pre_tokenizer: got null, want ByteLevel, or Split and ByteLevel")
	}
	parts := []preTokenizer{*p}
	if p.Type == "Sequence" {
		parts = p.PreTokenizers
	}
	f.hasPattern = true
	for i := range parts {
		if parts[i].Type == "ByteLevel" && parts[i].AddPrefixSpace {
			return f.errorf("pre_tokenizer: ByteLevel: add_prefix_space is true, want false: a text would get a space in front")
		}
	}
	switch {
	case len(parts) == 1 && parts[0].Type == "ByteLevel" && parts[0].useRegex():
		f.pattern = gpt2Pattern
		return nil
	case len(parts) == 2 && parts[0].Type == "Split" && parts[1].Type == "ByteLevel" && !parts[1].useRegex():
		return f.split(&parts[0])
	}
	types := make([]string, len(parts))
	for i := range parts {
		types[i] = parts[i].Type
		if types[i] == "ByteLevel" && !parts[i].useRegex() {
			types[i] = "ByteLevel with use_regex false"
		}
	}
	return f.errorf("pre_tokenizer: got %q, want ByteLevel, or Split and ByteLevel with use_regex false", types)
}

// split takes the pattern of a Split.
func (f *tokenizerFile) split(p *preTokenizer) error {
	if p.Pattern.Regex == nil {
		return f.errorf("pre_tokenizer: Split: got no Regex, want GPT-2's or Llama 3's")
	}
	// All of a text matches, so that it is the same to keep what matches, and to remove what
	// does not.
	if !(p.Behavior == "Isolated" && !p.Invert || p.Behavior == "Removed" && p.Invert) {
		return f.errorf("pre_tokenizer: Split: got behavior %q and invert %v, want Isolated and false", p.Behavior, p.Invert)
	}
	var ok bool
	if f.pattern, ok = patternOf(*p.Pattern.Regex); !ok {
		return f.errorf("pre_tokenizer: Split: got the pattern %q, want GPT-2's or that of Llama 3 and cl100k", *p.Pattern.Regex)
	}
	return nil
}

// model reads the value of a key of the model.
func (f *tokenizerFile) model(key string) error {
	what := "model: " + key
	switch key {
	case "type":
		var kind string
		if err := f.value(what, &kind); err != nil {
			return err
		}
		if kind != "BPE" {
			return f.errorf("model: got type %q, want BPE", kind)
		}
		return nil
	case "unk_token", "fuse_unk":
		// Each byte has a token, so that nothing is unknown.
		return f.skip(what)
	case "dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback":
		var v any
		if err := f.value(what, &v); err != nil {
			return err
		}
		if !slices.Contains([]any{nil, "", false, 0.0}, v) {
			return f.errorf("model: got %s %v, want none, as byte-level BPE has", key, v)
		}
		return nil
	case "ignore_merges":
		return f.value(what, &f.ignoreMerges)
	case "vocab":
		return f.vocabulary(what, f.builder)
	case "merges":
		if len(f.builder.ids) == 0 {
			return f.errorf("model: got merges in front of vocab, want vocab first")
		}
		return f.array(what, f.merge)
	}
	return f.errorf("model: got the key %q, which is not known: want those of a BPE", key)
}

// merge reads merge i, which is "a b" or ["a", "b"].
func (f *tokenizerFile) merge(i int) error {
	what := fmt.Sprintf("model: merge %d", i+1)
	var raw json.RawMessage
	if err := f.value(what, &raw); err != nil {
		return err
	}
	var tokens []string
	if raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return f.errorf("%s: %w", what, err)
		}
		tokens = strings.Split(s, " ")
	} else if err := json.Unmarshal(raw, &tokens); err != nil {
		return f.errorf("%s: %w", what, err)
	}
	if len(tokens) != 2 {
		return f.errorf("%s: got %s, want two tokens", what, short(string(raw)))
	}
	if err := f.builder.merge(tokens[0], tokens[1]); err != nil {
		return f.errorf("%s: %w", what, err)
	}
	return nil
}
