package text

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Open reads the tokenizer of a model: a tokenizer.json, or a folder with it, or one with vocab.json
// and merges.txt, or with encoder.json and vocab.bpe.
func Open(path string) (*BPE, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("text: %w", err)
	}
	if !info.IsDir() {
		return ReadTokenizer(path)
	}
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(path, name))
		return !errors.Is(err, fs.ErrNotExist)
	}
	if has("tokenizer.json") {
		return ReadTokenizer(filepath.Join(path, "tokenizer.json"))
	}
	for _, names := range [][2]string{{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}} {
		if has(names[0]) && has(names[1]) {
			return ReadVocabulary(filepath.Join(path, names[0]), filepath.Join(path, names[1]))
		}
	}
	err = fmt.Errorf("text: %s: want tokenizer.json, or vocab.json and merges.txt, or encoder.json and vocab.bpe: %w", path, fs.ErrNotExist)
	if has("tokenizer.model") {
		err = fmt.Errorf("%w; tokenizer.model is SentencePiece's, which is another kind", err)
	}
	return nil, err
}
