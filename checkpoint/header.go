package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/paragon-train/paragon/internal/observe/shown"
)

// parse reads the header's JSON, strictly: a name or a field that comes twice, a field that is not
// known and text that is not Unicode are errors, where encoding/json would take one of two
// meanings.
func (f *File) parse(header []byte) error {
	if len(header) == 0 || header[0] != '{' {
		return fmt.Errorf("got %.10q, want a JSON object", header)
	}
	if err := checkText(header); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(header))
	d.UseNumber()
	err := object(d, func(name string) error {
		if name == metadataName {
			f.metadata = map[string]string{}
			err := object(d, func(key string) error {
				token, err := d.Token()
				value, ok := token.(string)
				if err == nil && !ok {
					err = fmt.Errorf("%s: got %s, want a string", shown.Name(key), tokenText(token))
				}
				f.metadata[key] = value
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", metadataName, err)
			}
			return nil
		}
		if err := checkName(name); err != nil {
			return err
		}
		info, err := parseEntry(d)
		if err != nil {
			return fmt.Errorf("tensor %s: %w", shown.Name(name), err)
		}
		info.Name = name
		f.infos = append(f.infos, info)
		return nil
	})
	if err != nil {
		return fmt.Errorf("byte %d: %w", d.InputOffset(), err)
	}
	if rest := bytes.TrimRight(header[d.InputOffset():], " "); len(rest) > 0 {
		return fmt.Errorf("byte %d: got %.10q after the object, want spaces", d.InputOffset(), rest)
	}
	return nil
}

// object reads a JSON object; value reads what stands behind a key.
func object(d *json.Decoder, value func(key string) error) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	if token != json.Delim('{') {
		return fmt.Errorf("got %s, want an object", tokenText(token))
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok || seen[key] {
			return fmt.Errorf("got key %s, want a string, each key once", shown.Name(fmt.Sprint(token)))
		}
		seen[key] = true
		if err := value(key); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// parseEntry reads what the header says of a tensor. Its offset is from the start of the data.
func parseEntry(d *json.Decoder) (info Info, err error) {
	var offsets []int64
	err = object(d, func(field string) error {
		switch field {
		case "dtype":
			token, err := d.Token()
			text, ok := token.(string)
			if err == nil && !ok {
				err = fmt.Errorf("dtype: got %s, want a string", tokenText(token))
			}
			info.DType = DType(text)
			return err
		case "shape":
			sizes, err := integers(d, strconv.IntSize)
			for _, n := range sizes {
				info.Shape = append(info.Shape, int(n))
			}
			if info.Shape == nil && err == nil {
				// A number has no dimension; its shape is not nil.
				info.Shape = []int{}
			}
			return err
		case "data_offsets":
			offsets, err = integers(d, 64)
			return err
		}
		return fmt.Errorf("got the unknown field %s, want dtype, shape and data_offsets", shown.Name(field))
	})
	if err != nil {
		return info, err
	}
	if len(offsets) != 2 || info.Shape == nil || info.DType == "" {
		return info, fmt.Errorf("got %d data_offsets, shape %v and type %s, want 2, a shape and a type", len(offsets), info.Shape, shown.Name(string(info.DType)))
	}
	if offsets[0] < 0 || offsets[1] < offsets[0] {
		return info, fmt.Errorf("got data from %d to %d", offsets[0], offsets[1])
	}
	info.offset, info.Bytes = offsets[0], offsets[1]-offsets[0]
	// The size of elements of a type that this package does not know is not known, either.
	if info.DType.Bits() == 0 {
		_, err := elements(info.Shape)
		return info, err
	}
	want, err := sizeOf(info.DType, info.Shape)
	if err == nil && info.Bytes != want {
		err = fmt.Errorf("got data from %d to %d, want %d bytes for shape %v of %s", offsets[0], offsets[1], want, info.Shape, info.DType)
	}
	return info, err
}

// integers reads a JSON list of integers of so many bits.
func integers(d *json.Decoder, bits int) (list []int64, err error) {
	token, err := d.Token()
	if err == nil && token != json.Delim('[') {
		err = fmt.Errorf("got %s, want a list of integers", tokenText(token))
	}
	if err != nil {
		return nil, err
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		number, ok := token.(json.Number)
		n, err := strconv.ParseInt(string(number), 10, bits)
		if !ok || err != nil {
			return nil, fmt.Errorf("got %s in a list, want an integer of %d bits", tokenText(token), bits)
		}
		list = append(list, n)
	}
	_, err = d.Token()
	return list, err
}

// checkName says what is wrong with the name of a tensor.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("got a tensor with an empty name")
	case name == metadataName:
		return fmt.Errorf("got a tensor with the name %s, which the format reserves", metadataName)
	case !utf8.ValidString(name):
		return fmt.Errorf("got a tensor with the name %s, which is not UTF-8", shown.Name(name))
	}
	return nil
}

// checkText finds text that is not Unicode, which encoding/json would replace silently: bytes that
// are not UTF-8, and escapes of half a pair of surrogates. Backslashes stand within strings only.
func checkText(b []byte) error {
	if !utf8.Valid(b) {
		return fmt.Errorf("it is not UTF-8")
	}
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		if i++; i >= len(b) || b[i] != 'u' {
			continue
		}
		r := escape(b[i-1:])
		if !utf16.IsSurrogate(r) {
			continue
		}
		if i+5 > len(b) || utf16.DecodeRune(r, escape(b[i+5:])) == utf8.RuneError {
			return fmt.Errorf("byte %d: got half a pair of surrogates, which is no character", i-1)
		}
		i += 6
	}
	return nil
}

// escape is the number of \uXXXX at the start of b, or -1.
func escape(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// tokenText is what an error shows of a token of the header.
func tokenText(token json.Token) string {
	if text, ok := token.(string); ok {
		return shown.Name(text)
	}
	return shown.Cut(fmt.Sprint(token))
}
