package kvstore

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Declaration describes a key to the scheduler, which then places its shards.
type Declaration struct {
	Name string
	// Form is "dense", "rows" or "open" (an open vocabulary).
	Form string
	// Average is of InitAverage: no optimizer touches the key.
	Average bool
	// Size is the number of values; 0 for an open vocabulary.
	Size uint64
	// RowLen is the number of values in a row; 0 for a dense key.
	RowLen uint64
	// Table is of rows: their Initializer and MaxRows, as JSON.
	Table string
	// Whole says that the optimizer needs norms of the whole key, so that it must not be cut
	// into shards.
	Whole bool
}

// Declarations returns the declarations of the keys in a safetensors file. A file that Save wrote
// gives its keys by name, Whole where its optimizer needs whole keys. Any other file gives each
// tensor, in the file's order, as a dense key.
func Declarations(uri string) ([]Declaration, error) {
	file, err := checkpoint.OpenURI(context.Background(), uri)
	if err != nil {
		return nil, fmt.Errorf("kvstore: declarations: %w", err)
	}
	defer file.Close()
	meta := file.Metadata()
	var out []Declaration
	if _, ours := meta[metaStore]; !ours {
		for _, t := range file.Tensors() {
			d := Declaration{Name: t.Name, Form: formName(wire.FormDense), Size: 1}
			for _, n := range t.Shape {
				d.Size *= uint64(n)
			}
			out = append(out, d)
		}
		return out, nil
	}
	saved, cfg, err := checkFile(file, newKeyTable(func() bool { return false }), nil)
	if err != nil {
		return nil, fmt.Errorf("kvstore: declarations: %s: %w", uri, err)
	}
	for _, k := range saved {
		d := k.declare()
		out = append(out, Declaration{Name: d.Name, Form: formName(d.Form), Average: d.Rule == wire.RuleAverage, Size: d.Size, RowLen: d.RowLen,
			Table: d.Table, Whole: d.Rule == wire.RuleOptimizer && cfg != nil && cfg.WholeKeys()})
	}
	return out, nil
}

// formName is the word for a form in files and declarations.
func formName(form uint8) string {
	switch form {
	case wire.FormRows:
		return "rows"
	case wire.FormOpen:
		return "open"
	}
	return "dense"
}
