package data

import (
	"context"
	"testing"

	encoded "github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/sampler"
)

// blocksOnly is a source that says which blocks it has, and whether an example can be read by
// itself.
type blocksOnly struct {
	blocks []int
	alone  bool
}

func (b blocksOnly) Len() int                                                         { return 40 }
func (b blocksOnly) Read(context.Context, int, []byte) (x encoded.Example, err error) { return x, nil }
func (b blocksOnly) Range(int) (r objects.Range, ok bool)                             { return r, b.alone }
func (b blocksOnly) Blocks() []int                                                    { return b.blocks }
func (b blocksOnly) Classes() []string                                                { return nil }
func (b blocksOnly) Fingerprint() string                                              { return "" }
func (b blocksOnly) Close() error                                                     { return nil }

// The order does not depend on where data lies, which says whether there are blocks, but on whether
// single examples can be read.
func TestTheOrderSuitsTheData(t *testing.T) {
	firsts := []int{0, 10, 20, 30}
	for _, c := range []struct {
		source blocksOnly
		want   sampler.Order
	}{
		{blocksOnly{nil, true}, sampler.Permutation},
		{blocksOnly{firsts, true}, sampler.Permutation},
		{blocksOnly{firsts, false}, sampler.Blocks(firsts, 16)},
		{blocksOnly{[]int{0}, false}, sampler.Permutation},
		{blocksOnly{nil, false}, sampler.Permutation},
	} {
		if got := (&Images{source: c.source}).Order(); got.String() != c.want.String() {
			t.Errorf("%+v: got %v, want %v", c.source, got, c.want)
		}
	}
}
