package optim_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/optim"
)

// scattered is a Table whose rows lie in arrays of their own.
type scattered [][][]float32 // by slot from -1, then row

func (s scattered) Row(row int64, slot int) []float32 { return s[1+slot][row] }

// Rows change as their values alone would, whether they are updated in blocks or one by one, in one
// array or scattered.
func TestRowsInBlocksAndTablesChangeAsEachAlone(t *testing.T) {
	const numRows = 300
	for _, name := range optim.Names() {
		for _, rowLen := range []int{1, 3, 16, 300} {
			o := newOptimizer(t, optim.Config{Name: name, LearningRate: 0.1})
			if o.Config().WholeKeys() {
				continue // norms go over all rows: below
			}
			random := rand.New(rand.NewPCG(1, uint64(rowLen)))
			draw := func(n int) []float32 {
				x := make([]float32, n)
				for i := range x {
					x[i] = random.Float32() - 0.5
				}
				return x
			}
			value, state := draw(numRows*rowLen), o.NewState(numRows*rowLen)
			want, wantState := slices.Clone(value), o.NewState(numRows*rowLen)
			table := scatter(value, o.NewState(numRows*rowLen), rowLen)
			for step := range uint64(3) {
				var rows []int64
				for r := range int64(numRows) {
					if random.IntN(3) > 0 {
						rows = append(rows, r)
					}
				}
				if step == 1 {
					random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
				}
				grad := draw(len(rows) * rowLen)
				p := o.At(step, 1, one)
				if err := p.UpdateRows(rows, rowLen, value, grad, state); err != nil {
					t.Fatal(err)
				}
				if err := p.UpdateTable(rows, rowLen, table, grad); err != nil {
					t.Fatal(err)
				}
				for i, r := range rows {
					from, to := int(r)*rowLen, int(r+1)*rowLen
					if err := p.Update(want[from:to], grad[i*rowLen:(i+1)*rowLen], wantState.Slice(from, to)); err != nil {
						t.Fatal(err)
					}
				}
			}
			if !slices.Equal(value, want) {
				t.Errorf("%s, rows of %d: the table differs from its rows updated each alone", name, rowLen)
			}
			for k, slot := range state.Slots {
				if !slices.Equal(slot.Values, wantState.Slots[k].Values) {
					t.Errorf("%s, rows of %d: slot %s differs from its rows updated each alone", name, rowLen, slot.Name)
				}
			}
			for slot, array := range append([][]float32{want}, slots(wantState)...) {
				for r := range numRows {
					if !slices.Equal(table[slot][r], array[r*rowLen:(r+1)*rowLen]) {
						t.Fatalf("%s, rows of %d: row %d of slot %d differs", name, rowLen, r, slot-1)
					}
				}
			}
		}
	}
}

// Norms go over the named rows together, also where these are scattered.
func TestNormsOfATableAreThoseOfItsRows(t *testing.T) {
	for _, cfg := range []optim.Config{{Name: "lamb", LearningRate: 0.1, WeightDecay: 0.1}, {Name: "lars", LearningRate: 1, Momentum: 0.9}, {Name: "adam", ClipNorm: 0.1}} {
		o := newOptimizer(t, cfg)
		value, state := []float32{1, 2, 3, 4, 5, 6}, o.NewState(6)
		table := scatter(value, o.NewState(6), 2)
		for step := range uint64(3) {
			grad := []float32{1, -2, 3, float32(step)}
			if err := o.At(step, 1, one).UpdateRows([]int64{0, 2}, 2, value, grad, state); err != nil {
				t.Fatal(err)
			}
			if err := o.At(step, 1, one).UpdateTable([]int64{0, 2}, 2, table, grad); err != nil {
				t.Fatal(err)
			}
		}
		if got := slices.Concat(table[0]...); !slices.Equal(got, value) {
			t.Errorf("%s: got %v, want %v as in one array", cfg.Name, got, value)
		}
	}
	o := newOptimizer(t, optim.Config{Name: "sgd"})
	if err := o.At(0, 1, one).UpdateTable([]int64{0}, 2, scattered{}, make([]float32, 3)); err == nil || !strings.Contains(err.Error(), "got 3 gradients for 1 rows of 2") {
		t.Errorf("3 gradients for a row of 2: got %v", err)
	}
}

func slots(s *optim.State) (all [][]float32) {
	for _, slot := range s.Slots {
		all = append(all, slot.Values)
	}
	return all
}

func scatter(value []float32, s *optim.State, rowLen int) scattered {
	var t scattered
	for _, array := range append([][]float32{value}, slots(s)...) {
		var rows [][]float32
		for row := range slices.Chunk(array, rowLen) {
			rows = append(rows, slices.Clone(row))
		}
		t = append(t, rows)
	}
	return t
}
