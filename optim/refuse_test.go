package optim_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/optim"
)

// What does not belong together is an error, and nothing is changed.
func TestUpdatesRefuseWhatDoesNotFit(t *testing.T) {
	adam := newOptimizer(t, optim.Config{Name: "adam", LearningRate: 0.1})
	sgd := newOptimizer(t, optim.Config{Name: "sgd", LearningRate: 0.1, Momentum: 0.9})
	good, foreign := adam.NewState(6), sgd.NewState(6)
	for _, c := range []struct {
		name   string
		update func(p optim.Pass, value []float32) error
		want   string
	}{
		{"gradients for other values", func(p optim.Pass, value []float32) error { return p.Update(value, make([]float32, 5), good) }, "update: got 5 gradients for 6 values"},
		{"no state", func(p optim.Pass, value []float32) error { return p.Update(value, make([]float32, 6), nil) }, "state: got 0 slots, want 2"},
		{"a short state", func(p optim.Pass, value []float32) error {
			return p.Update(value, make([]float32, 6), adam.NewState(5))
		}, `slot 0: got "mean" of 5 values, want "mean" of 6`},
		{"rows of nothing", func(p optim.Pass, value []float32) error { return p.UpdateRows([]int64{0}, 0, value, nil, good) }, "got rows of 0 for a table of 6 values"},
		{"rows that do not divide the table", func(p optim.Pass, value []float32) error {
			return p.UpdateRows([]int64{0}, 4, value, make([]float32, 4), good)
		}, "got rows of 4 for a table of 6 values"},
		{"fewer rows than gradients", func(p optim.Pass, value []float32) error {
			return p.UpdateRows([]int64{0}, 2, value, make([]float32, 4), good)
		}, "got 4 gradients for 1 rows of 2"},
		{"half a row of gradients", func(p optim.Pass, value []float32) error {
			return p.UpdateRows([]int64{0}, 2, value, make([]float32, 3), good)
		}, "got 3 gradients for 1 rows of 2"},
		{"a row behind the last", func(p optim.Pass, value []float32) error {
			return p.UpdateRows([]int64{0, 3}, 2, value, []float32{1, 1, 1, 1}, good)
		}, "rows[1]: got row 3, want 0 to 2"},
		{"a row before the first", func(p optim.Pass, value []float32) error {
			return p.UpdateRows([]int64{-1}, 2, value, []float32{1, 1}, good)
		}, "rows[0]: got row -1, want 0 to 2"},
		{"rows under another rule's state", func(p optim.Pass, value []float32) error {
			return p.UpdateRows([]int64{0}, 2, value, []float32{1, 1}, foreign)
		}, "state: got 1 slots, want 2"},
		{"rows without a state", func(p optim.Pass, value []float32) error {
			return p.UpdateRows([]int64{0}, 2, value, []float32{1, 1}, nil)
		}, "state: got 0 slots, want 2"},
	} {
		value := []float32{1, 2, 3, 4, 5, 6}
		if err := c.update(adam.At(0, 1, one), value); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		}
		if !slices.Equal(value, []float32{1, 2, 3, 4, 5, 6}) {
			t.Errorf("%s: the values became %v", c.name, value)
		}
		if x := slices.Concat(slots(good)...); slices.Max(x) != 0 || slices.Min(x) != 0 {
			t.Errorf("%s: the state became %v", c.name, x)
		}
	}
}
