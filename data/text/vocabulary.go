package text

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ReadVocabulary reads GPT-2's tokenizer from the two files that Hugging Face calls vocab.json and
// merges.txt, and OpenAI encoder.json and vocab.bpe. Tokens that no merge makes, such as
// <|endoftext|>, are special.
func ReadVocabulary(vocabulary, merges string) (*BPE, error) {
	v, err := readFile(vocabulary)
	if err != nil {
		return nil, err
	}
	m, err := readFile(merges)
	if err != nil {
		return nil, err
	}
	return parseVocabulary(vocabulary, v, merges, m)
}

// parseVocabulary reads the contents of the files of these names.
func parseVocabulary(vname string, vdata []byte, mname string, mdata []byte) (*BPE, error) {
	f, err := newJSONFile(vname, vdata)
	if err != nil {
		return nil, err
	}
	b := newBuilder()
	if err := f.vocabulary("vocabulary", b); err != nil {
		return nil, err
	}
	if err := f.end(); err != nil {
		return nil, err
	}
	if err := parseMerges(mname, mdata, b); err != nil {
		return nil, err
	}
	b.othersAreSpecial()
	v, err := b.vocabulary(gpt2Pattern, false)
	if err != nil {
		return nil, fmt.Errorf("text: %s: %w", vname, err)
	}
	return &BPE{vocabulary: v}, nil
}

// vocabulary reads an object of tokens and their numbers.
func (f *jsonFile) vocabulary(what string, b *builder) error {
	return f.object(what, func(token string) error {
		var id json.Number
		if err := f.value(fmt.Sprintf("%s: token %q", what, token), &id); err != nil {
			return err
		}
		n, err := id.Int64()
		if err != nil {
			return f.errorf("%s: token %q: got the number %q, want a whole one", what, token, id.String())
		}
		if err := b.add(token, n); err != nil {
			return f.errorf("%s: %w", what, err)
		}
		return nil
	})
}

// parseMerges reads a line for each merge, behind one that may say the version.
func parseMerges(name string, data []byte, b *builder) error {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 || number == 1 && bytes.HasPrefix(line, []byte("#version")) {
			continue
		}
		left, right, ok := strings.Cut(string(line), " ")
		if !ok || left == "" || right == "" || strings.Contains(right, " ") || !utf8.Valid(line) {
			return fmt.Errorf("text: %s line %d: got %q, want two tokens with a space between", name, number, short(string(line)))
		}
		if err := b.merge(left, right); err != nil {
			return fmt.Errorf("text: %s line %d: %w", name, number, err)
		}
	}
	return nil
}

// short returns the beginning of what is too long for an error.
func short(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
