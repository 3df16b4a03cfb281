package optim_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/alloctest"
	"github.com/paragon-train/paragon/optim"
)

// updateInPieces updates a key as servers that own pieces of it would: sums
// first where the rule needs them, then each piece by itself.
func updateInPieces(t *testing.T, p optim.Pass, cuts []int, value, grad []float32, states []*optim.State) {
	t.Helper()
	squares, norms := 0.0, optim.Norms{}
	for k := range states {
		squares += p.GradientSquares(grad[cuts[k]:cuts[k+1]])
	}
	p = p.WithGradientSquares(squares)
	for k, s := range states {
		n, err := p.Norms(value[cuts[k]:cuts[k+1]], grad[cuts[k]:cuts[k+1]], s)
		if err != nil {
			t.Fatal(err)
		}
		norms = norms.Add(n)
	}
	p = p.WithNorms(norms)
	for k, s := range states {
		if err := p.Update(value[cuts[k]:cuts[k+1]], grad[cuts[k]:cuts[k+1]], s); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAKeyCutIntoShardsChangesAsTheWholeKey(t *testing.T) {
	const n = 101
	cuts := []int{0, 1, 40, 40, 77, n}
	for _, cfg := range configs() {
		t.Run(label(cfg), func(t *testing.T) {
			o := newOptimizer(t, cfg)
			r := rand.New(rand.NewPCG(3, 4))
			whole := randomValues(r, n)
			pieces := slices.Clone(whole)
			state := o.NewState(n)
			var states []*optim.State
			for k := range len(cuts) - 1 {
				states = append(states, o.NewState(cuts[k+1]-cuts[k]))
			}
			for step := range uint64(10) {
				grad := randomValues(r, n)
				p := o.At(step, 0.5, one)
				if err := p.Update(whole, grad, state); err != nil {
					t.Fatal(err)
				}
				updateInPieces(t, p, cuts, pieces, grad, states)
				for i := range whole {
					tolerance := 0.0 // element by element: the very same
					if cfg.WholeKeys() {
						tolerance = 1e-6 * (1 + math.Abs(float64(whole[i])))
					}
					if math.Abs(float64(whole[i]-pieces[i])) > tolerance {
						t.Fatalf("step %d element %d: got %v in pieces, want %v", step, i, pieces[i], whole[i])
					}
				}
			}
		})
	}
}

// An update of some rows is the update of a key that has only these rows, and
// the other rows stay untouched in value and state.
func TestRowsChangeAsAKeyOfTheseRows(t *testing.T) {
	const numRows, rowLen = 9, 4
	rows := []int64{7, 0, 3}
	for _, cfg := range configs() {
		t.Run(label(cfg), func(t *testing.T) {
			o := newOptimizer(t, cfg)
			r := rand.New(rand.NewPCG(5, 6))
			table, state := randomValues(r, numRows*rowLen), o.NewState(numRows*rowLen)
			before := slices.Clone(table)
			var dense []float32
			for _, row := range rows {
				dense = append(dense, table[row*rowLen:(row+1)*rowLen]...)
			}
			denseState := o.NewState(len(dense))
			for step := range uint64(5) {
				grad := randomValues(r, len(dense))
				if err := o.At(step, 1, one).UpdateRows(rows, rowLen, table, grad, state); err != nil {
					t.Fatal(err)
				}
				if err := o.At(step, 1, one).Update(dense, grad, denseState); err != nil {
					t.Fatal(err)
				}
			}
			fresh := o.NewState(numRows * rowLen)
			for row := range int64(numRows) {
				from, to := row*rowLen, (row+1)*rowLen
				k := slices.Index(rows, row)
				want, wantState := before[from:to], fresh.Slice(int(from), int(to))
				if k >= 0 {
					want, wantState = dense[k*rowLen:(k+1)*rowLen], denseState.Slice(k*rowLen, (k+1)*rowLen)
				}
				if got := table[from:to]; !slices.Equal(got, want) {
					t.Errorf("row %d: got %v, want %v", row, got, want)
				}
				for i, slot := range state.Slice(int(from), int(to)).Slots {
					if !slices.Equal(slot.Values, wantState.Slots[i].Values) {
						t.Errorf("row %d %s: got %v, want %v", row, slot.Name, slot.Values, wantState.Slots[i].Values)
					}
				}
			}
		})
	}
}

func TestArraysThatDoNotFitAreErrorsAndChangeNothing(t *testing.T) {
	o := newOptimizer(t, optim.Config{Name: "adam"})
	value := make([]float32, 6)
	p, state := o.At(0, 1, one), o.NewState(6)
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"gradient", p.Update(value, make([]float32, 5), state), "got 5 gradients for 6 values"},
		{"no state", p.Update(value, make([]float32, 6), nil), "got 0 slots, want 2"},
		{"short state", p.Update(value, make([]float32, 6), o.NewState(5)), `got "mean" of 5 values, want "mean" of 6`},
		{"row length", p.UpdateRows([]int64{0}, 4, value, make([]float32, 4), state), "got rows of 4 for a table of 6"},
		{"row length 0", p.UpdateRows(nil, 0, value, nil, state), "got rows of 0"},
		{"row count", p.UpdateRows([]int64{0}, 2, value, make([]float32, 4), state), "got 4 gradients for 1 rows of 2"},
		{"row 3", p.UpdateRows([]int64{0, 3}, 2, value, []float32{1, 1, 1, 1}, state), "rows[1]: got row 3, want 0 to 2"},
		{"row -1", p.UpdateRows([]int64{0, -1}, 2, value, []float32{1, 1, 1, 1}, state), "rows[1]: got row -1"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", c.name, c.err, c.want)
		}
	}
	if slices.ContainsFunc(value, func(x float32) bool { return x != 0 }) {
		t.Errorf("value after errors: got %v, want zeros", value)
	}
}

func TestAnUpdateAllocatesNothing(t *testing.T) {
	for _, name := range optim.Names() {
		o := newOptimizer(t, optim.Config{Name: name})
		value, grad, state := make([]float32, 64), make([]float32, 64), o.NewState(64)
		rows := []int64{1, 3}
		if got := alloctest.PerRun(10, func() {
			if o.At(5, 1, one).Update(value, grad, state) != nil ||
				o.At(5, 1, one).UpdateRows(rows, 8, value, grad[:16], state) != nil {
				t.Fatal("update failed")
			}
		}); got != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, got)
		}
	}
}
