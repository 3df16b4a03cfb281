package kvstore

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/wire"
)

// A Declaration is what a store asks a place for when a key is initialised.
type Declaration struct {
	Name    string
	Form    string // "dense", "rows" or "open": a vocabulary without a number of rows
	Average bool   // InitAverage: no optimizer touches it
	Size    uint64 // values; 0 of an open vocabulary
	RowLen  uint64 // values of one row; 0 of a dense key
	Table   string // of rows: their first values, as JSON
	Whole   bool   // its optimizer needs norms of the whole key, so it must not be cut into shards
}

// Declarations returns what a store declares for the keys of a safetensors file: those of a file that Save wrote,
// in the order of their names and whole where its optimizer needs whole keys; of another file every tensor, as a dense key of
// its number of values, in the order of the file.
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
	fresh := &store{keys: map[string]*key{}}
	saved, cfg, err := fresh.check(file)
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
