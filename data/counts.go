package data

import (
	"context"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/data/internal/table"
)

// maxCounted bounds the values that Counts counts.
const maxCounted = 1 << 20

// Counts reads a whole column of integers, such as that of labels, and returns how many rows have
// each value; rows without one are not counted. More than a million values are an error: it is no
// column of classes.
func (t *Table) Counts(ctx context.Context, column string) (map[int64]int, error) {
	c := slices.IndexFunc(t.source.Columns(), func(c table.Column) bool { return c.Name == column })
	if c < 0 || t.source.Columns()[c].Kind != table.Int {
		return nil, fmt.Errorf("data: table %s: count %q: want a column of integers", t.store.URL(), column)
	}
	counts := make(map[int64]int)
	for b := range len(t.source.Blocks()) - 1 {
		block, err := t.source.ReadBlock(ctx, b, []int{c}, t.cache.Limit())
		if err != nil {
			return nil, fmt.Errorf("data: table %s: %w", t.store.URL(), err)
		}
		v := &block.Columns[0]
		for i, x := range v.Ints {
			if !v.Null(i) {
				counts[x]++
			}
		}
		if len(counts) > maxCounted {
			return nil, fmt.Errorf("data: table %s: column %q has more than %d values: it is no column of classes", t.store.URL(), column, maxCounted)
		}
	}
	return counts, nil
}

// BalancedWeights returns a weight for each class of a loss (nn.CrossEntropyConfig.ClassWeights),
// by the classes' numbers of examples: one over the number, so that all classes have the same part
// in the loss, and such that the weights of all examples sum up to their number, as scikit-learn's
// "balanced". A class without examples has the weight 0.
func BalancedWeights(counts []int) []float32 {
	total, classes := 0, 0
	for _, n := range counts {
		if n > 0 {
			total += n
			classes++
		}
	}
	weights := make([]float32, len(counts))
	for c, n := range counts {
		if n > 0 {
			weights[c] = float32(float64(total) / float64(classes) / float64(n))
		}
	}
	return weights
}
