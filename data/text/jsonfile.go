package text

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"unicode/utf8"
)

// largestFile bounds the files of tokenizers. The largest known ones have some 35 MB.
const largestFile = 256 << 20

// readFile reads a file of at most largestFile bytes.
func readFile(path string) (data []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("text: %w", err)
	}
	defer f.Close()
	data, err = io.ReadAll(io.LimitReader(f, largestFile+1))
	if err != nil {
		return nil, fmt.Errorf("text: %w", err)
	}
	if len(data) > largestFile {
		return nil, fmt.Errorf("text: %s: got more than %d bytes, want a tokenizer's file", path, largestFile)
	}
	return data, nil
}

// A jsonFile reads JSON from its beginning on and knows at which line it is.
type jsonFile struct {
	name string
	data []byte
	dec  *json.Decoder
}

func newJSONFile(name string, data []byte) (*jsonFile, error) {
	f := &jsonFile{name: name, data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("text: %s: got bytes that are not UTF-8, want JSON", name)
	}
	return f, nil
}

// errorf makes an error about what was read last.
func (f *jsonFile) errorf(format string, args ...any) error {
	before := f.data[:min(int(f.dec.InputOffset()), len(f.data))]
	line := bytes.Count(before, []byte("\n"))
	column := len(before) - (bytes.LastIndexByte(before, '\n') + 1)
	return fmt.Errorf("text: %s line %d column %d: %w", f.name, line+1, column+1, fmt.Errorf(format, args...))
}

// object reads an object: each reads the value of a key.
func (f *jsonFile) object(what string, each func(key string) error) error {
	if err := f.bracket('{', what); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for f.dec.More() {
		token, err := f.dec.Token()
		if err != nil {
			return f.errorf("%s: %w", what, err)
		}
		key, _ := token.(string)
		if seen[key] {
			return f.errorf("%s: got the key %q twice", what, key)
		}
		seen[key] = true
		if err := each(key); err != nil {
			return err
		}
	}
	return f.bracket('}', what)
}

// array reads an array: each reads element i.
func (f *jsonFile) array(what string, each func(i int) error) error {
	if err := f.bracket('[', what); err != nil {
		return err
	}
	for i := 0; f.dec.More(); i++ {
		if err := each(i); err != nil {
			return err
		}
	}
	return f.bracket(']', what)
}

func (f *jsonFile) bracket(want json.Delim, what string) error {
	token, err := f.dec.Token()
	if err == io.EOF {
		return f.errorf("%s: the file ends, want %q", what, want)
	}
	if err != nil {
		return f.errorf("%s: %w", what, err)
	}
	if token != want {
		return f.errorf("%s: got %v, want %q", what, token, want)
	}
	return nil
}

// value reads a value into v.
func (f *jsonFile) value(what string, v any) error {
	if err := f.dec.Decode(v); err != nil {
		return f.errorf("%s: %w", what, err)
	}
	return nil
}

// skip reads a value of which nothing is wanted.
func (f *jsonFile) skip(what string) error {
	var raw json.RawMessage
	return f.value(what, &raw)
}

// end returns an error unless nothing follows.
func (f *jsonFile) end() error {
	if token, err := f.dec.Token(); err != io.EOF {
		return f.errorf("got %v behind the end, want nothing", token)
	}
	return nil
}
