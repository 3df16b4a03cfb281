package kvstore

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/wire"
)

// Declarations returns what a store asks of the scheduler for the keys of a safetensors file: those of a file that Save wrote,
// in the order of their names and whole where its optimizer needs whole keys; of another file every tensor, as a dense key of
// its number of values, in the order of the file.
func Declarations(uri string) ([]wire.Declare, error) {
	file, err := checkpoint.OpenURI(context.Background(), uri)
	if err != nil {
		return nil, fmt.Errorf("kvstore: declarations: %w", err)
	}
	defer file.Close()
	meta := file.Metadata()
	var out []wire.Declare
	if _, ours := meta[metaStore]; !ours {
		for _, t := range file.Tensors() {
			d := wire.Declare{Name: t.Name, Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: 1}
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
		d.Whole = d.Rule == wire.RuleOptimizer && cfg != nil && cfg.WholeKeys()
		out = append(out, d)
	}
	return out, nil
}
