package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/shown"
)

// Files of a folder with a model of Hugging Face's.
const (
	// ModelFile has the model, if it is in one file.
	ModelFile = "model.safetensors"
	// IndexFile says which file has which tensor of a model that is in several.
	IndexFile = ModelFile + indexEnding
	// ConfigFile describes the model.
	ConfigFile = "config.json"

	indexEnding = ".index.json"
)

// modelFiles are those that a folder's model may be in, by preference.
func modelFiles() []string { return []string{ModelFile, IndexFile, "consolidated.safetensors"} }

// pickles are files of the same in another format.
func pickles() []string {
	return []string{"pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth"}
}

// addFolder adds the model of a folder as Hugging Face's libraries write them; false: there is none.
func (m *model) addFolder(ctx context.Context, place Place) (bool, error) {
	for _, name := range modelFiles() {
		there, err := hasFile(ctx, place, name)
		if err != nil || !there {
			if err != nil {
				return false, err
			}
			continue
		}
		if strings.HasSuffix(name, indexEnding) {
			return true, m.addIndex(ctx, place, name)
		}
		f, err := m.openIn(ctx, place, name)
		if err != nil {
			return false, err
		}
		m.summed = f.HasChecksums()
		return true, m.addStore(f)
	}
	for _, name := range pickles() {
		there, err := hasFile(ctx, place, name)
		if err != nil {
			return false, err
		}
		if there {
			return false, pickleError(Join(m.from, strings.TrimSuffix(name, indexEnding)))
		}
	}
	return false, nil
}

// openIn opens and verifies a file of a place, which the model closes.
func (m *model) openIn(ctx context.Context, place Place, name string) (*File, error) {
	f, err := OpenIn(ctx, place, name)
	if err != nil {
		return nil, err
	}
	m.close = append(m.close, f.Close)
	return f, f.Verify()
}

func hasFile(ctx context.Context, place Place, name string) (bool, error) {
	f, err := place.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// addIndex adds the tensors that an index names, from the files beside it.
func (m *model) addIndex(ctx context.Context, place Place, name string) error {
	text, err := readText(ctx, place, name, MaxHeader)
	if err != nil {
		return fmt.Errorf("checkpoint: read %s: %w", name, err)
	}
	index, err := parseIndex(text)
	if err != nil {
		return fmt.Errorf("checkpoint: read %s: %w", name, damaged("%w", err))
	}
	opened := map[string]*File{}
	for _, entry := range index {
		f := opened[entry.file]
		if f == nil {
			if f, err = m.openIn(ctx, place, entry.file); err != nil {
				return fmt.Errorf("%s names it: %w", name, err)
			}
			opened[entry.file] = f
		}
		info, err := f.Tensor(entry.tensor)
		if err != nil {
			return fmt.Errorf("checkpoint: %s: %w", name, damaged("it says that %s is in %s: %w", shown.Name(entry.tensor), entry.file, err))
		}
		m.add(entry.tensor, f, info)
	}
	return nil
}

// An indexEntry says which file a tensor is in.
type indexEntry struct{ tensor, file string }

// parseIndex reads the text of an index: {"metadata":{"total_size":BYTES},"weight_map":{NAME:FILE}}.
// The size is a hint, and not looked at: writers do not agree on what it counts. Files lie beside the
// index, so that no name has a slash.
func parseIndex(text []byte) (list []indexEntry, err error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	there := false
	d := json.NewDecoder(bytes.NewReader(text))
	err = object(d, func(field string) error {
		if field != "weight_map" {
			var other json.RawMessage
			return d.Decode(&other)
		}
		there = true
		return object(d, func(tensor string) error {
			if err := checkName(tensor); err != nil {
				return err
			}
			token, err := d.Token()
			file, ok := token.(string)
			switch {
			case err != nil:
				return err
			case !ok || file != path.Base(file) || strings.ContainsAny(file, `/\:`) || path.Ext(file) != path.Ext(ModelFile):
				return fmt.Errorf("%s is in %s, want the name of a file %s without slashes, beside the index", shown.Name(tensor), tokenText(token), path.Ext(ModelFile))
			}
			list = append(list, indexEntry{tensor, file})
			return nil
		})
	})
	if err == nil && !there {
		err = errors.New("got no weight_map, want one with the file of each tensor")
	}
	if rest := bytes.TrimSpace(text[min(d.InputOffset(), int64(len(text))):]); err == nil && len(rest) > 0 {
		err = fmt.Errorf("got %.10q after the object, want nothing", rest)
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b indexEntry) int { return strings.Compare(a.file, b.file) })
	return list, nil
}

// readText reads a small file whole.
func readText(ctx context.Context, place Place, name string, most int64) (text []byte, err error) {
	file, err := place.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	if size > most {
		return nil, damaged("got %d bytes, want at most %d", size, most)
	}
	text = make([]byte, size)
	if n, err := file.ReadAt(text, 0); n < len(text) {
		return nil, err
	}
	return text, nil
}
