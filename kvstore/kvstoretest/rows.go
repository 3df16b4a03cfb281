package kvstoretest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/kvstore"
)

// (2, 3) of ones; each worker pushes r+1 in the one row r mod 2: row k = 1 + Σ_{r ≡ k mod 2}
// (r+1)·2·(i+1).
func rows(w *Worker) {
	const rowLen = 3
	key := w.key("small")
	w.ok(w.Store.InitRows(w.Ctx, key, 2, rowLen, fill(2*rowLen, 1)))
	want := func(row, pushes int) float32 {
		sum := 0
		for r := range w.n {
			if r%2 == row {
				sum += r + 1
			}
		}
		return float32(1 + sum*2*pushes)
	}
	random := rand.New(rand.NewPCG(5, uint64(w.r)))
	for i := range 3 {
		w.pushRows(key, []int64{int64(w.r % 2)}, fill(rowLen, float32(w.r+1)))
		ids := make([]int64, random.IntN(6))
		for j := range ids {
			ids[j] = int64(random.IntN(2))
		}
		out := make([]float32, len(ids)*rowLen)
		w.pullRows(key, ids, out)
		for j, id := range ids {
			w.all(fmt.Sprintf("%s row %d after push %d", key, id, i), out[j*rowLen:(j+1)*rowLen], want(int(id), i+1))
		}
	}
	// No rows is a contribution too, and changes nothing.
	for _, shape := range [][2]int{{2, 3}, {w.edge, w.edge}} {
		key := w.key("none of %d", shape[0])
		w.ok(w.Store.InitRows(w.Ctx, key, shape[0], shape[1], fill(shape[0]*shape[1], 1)))
		w.pushRows(key, nil, nil)
		w.pullRows(key, nil, nil)
		all, out := make([]int64, shape[0]), make([]float32, shape[0]*shape[1])
		for i := range all {
			all[i] = int64(i)
		}
		w.pullRows(key, all, out)
		w.all(key, out, 1)
	}
}

// A big table, rows as long as it has; of some random rows worker r pushes every 2(r+1)-th.
func bigRows(w *Worker) {
	n := w.edge
	key := w.key("big")
	w.ok(w.Store.InitRows(w.Ctx, key, n, n, fill(n*n, 1)))
	// The rows are the same on all workers.
	random := rand.New(rand.NewPCG(9, 9))
	for i := range 2 {
		var ids []int64
		for j := range n {
			if random.Float32() < 0.3 {
				ids = append(ids, int64(j))
			}
		}
		before := make([]float32, len(ids)*n)
		w.pullRows(key, ids, before)
		// All have pulled before one pushes.
		w.barrier()
		var mine []int64
		for j := 0; j < len(ids); j += 2 * (w.r + 1) {
			mine = append(mine, ids[j])
		}
		w.pushRows(key, mine, fill(len(mine)*n, float32(w.r+1)))
		after := make([]float32, len(ids)*n)
		w.pullRows(key, ids, after)
		for j, id := range ids {
			sum := float32(0)
			for r := range w.n {
				if j%(2*(r+1)) == 0 {
					sum += 2 * float32(r+1)
				}
			}
			w.all(fmt.Sprintf("row %d after push %d", id, i), after[j*n:(j+1)*n], before[j*n]+sum)
		}
	}
}

// Rows need not be sorted or unique: duplicates add up in a push and are repeated in a pull.
func duplicateRows(w *Worker) {
	key := w.key("x")
	w.ok(w.Store.InitRows(w.Ctx, key, 7, 2, nil))
	w.pushRows(key, []int64{5, 0, 5, 3, 5}, []float32{1, 2, 10, 20, 3, 4, 7, 8, 100, 200})
	out := make([]float32, 6*2)
	w.pullRows(key, []int64{3, 5, 6, 0, 5, 1}, out)
	n := 2 * float32(w.n)
	w.same(key, out, []float32{7 * n, 8 * n, 104 * n, 206 * n, 0, 0, 10 * n, 20 * n, 104 * n, 206 * n, 0, 0})
}

// Without an optimizer the summed rows replace those rows; the others stay.
func rowsReplaced(w *Worker) {
	key := w.key("x")
	w.ok(w.Store.InitRows(w.Ctx, key, 3, 3, fill(9, 1)))
	out := make([]float32, 9)
	w.pullRows(key, []int64{0, 2, 1}, out)
	w.all(key, out, 1)
	w.pushRows(key, []int64{2}, fill(3, 4))
	w.pullRows(key, []int64{0, 1, 2}, out)
	w.same(key, out, append(fill(6, 1), fill(3, float32(4*w.n))...))
}

// Any int64 names a row. Until it is pushed to it has its first value and takes no memory; then
// 2·Σg is added to that.
func openRows(w *Worker) {
	const rowLen = 3
	key, random := w.key("words"), kvstore.Initializer{Name: "uniform", Low: -1, High: 1, Seed: 7}
	before := w.rowsHeld()
	w.barrier()
	w.ok(w.Store.InitTable(w.Ctx, key, kvstore.Table{RowLen: rowLen, Initializer: random}))
	ids := []int64{5, -1, math.MinInt64, math.MaxInt64, 1 << 40, 5, 0}
	first := make([]float32, len(ids)*rowLen)
	w.pullRows(key, ids, first)
	for i, v := range first {
		if v < -1 || v >= 1 || v == 0 || i >= 5*rowLen && i < 6*rowLen && v != first[i-5*rowLen] || i >= rowLen && i < 5*rowLen && v == first[i-rowLen] {
			w.failf("%s: got first values %v, want them drawn from -1 to 1 by row", key, first)
		}
	}
	if held := w.rowsHeld(); held != before {
		w.failf("after pulls: got %d rows held, want %d as before", held, before)
	}
	w.barrier()
	for round := range 3 {
		w.pushRows(key, []int64{-1, 1 << 40, -1}, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9})
		w.pushRows(key, nil, nil)
		out := make([]float32, len(ids)*rowLen)
		w.pullRows(key, ids, out)
		want := slices.Clone(first)
		for range round + 1 {
			for j := range rowLen {
				want[rowLen+j] += 2 * float32(w.n) * float32(8+2*j)
				want[4*rowLen+j] += 2 * float32(w.n) * float32(4+j)
			}
		}
		w.same(key, out, want)
	}
	if held := w.rowsHeld(); held != before+2 {
		w.failf("after pushes to two rows: got %d rows held, want %d", held, before+2)
	}
	w.barrier()
	// Rows by number begin alike.
	table := w.key("table")
	w.ok(w.Store.InitTable(w.Ctx, table, kvstore.Table{Rows: 50, RowLen: rowLen, Initializer: random}))
	all, out, again := make([]int64, 50), make([]float32, 50*rowLen), make([]float32, rowLen)
	for i := range all {
		all[i] = int64(i)
	}
	w.pullRows(table, all, out)
	w.pullRows(table, []int64{49}, again)
	w.same(table, again, out[49*rowLen:])
	if out[0] == out[rowLen] || out[0] == first[6*rowLen] {
		w.failf("%s: got first values %v, want them drawn by key and row", table, out)
	}
}

// rowsHeld returns how many rows of open vocabularies all servers hold.
func (w *Worker) rowsHeld() uint64 {
	list, err := w.Store.Usage(w.Ctx)
	w.ok(err)
	rows := uint64(0)
	for i, u := range list {
		if u.Server != i {
			w.failf("usage: got server %d at %d", u.Server, i)
		}
		rows += u.Rows
	}
	return rows
}

func fullTable(w *Worker) {
	key := w.key("small")
	w.ok(w.Store.InitTable(w.Ctx, key, kvstore.Table{RowLen: 2, MaxRows: 40}))
	ids := make([]int64, 100)
	for i := range ids {
		ids[i] = int64(i)
	}
	w.pushRows(key, ids[:3], make([]float32, 6))
	err := w.Store.PushRows(w.Ctx, key, ids, make([]float32, 200))
	w.is("a push of 100 rows where 40 fit", err, kvstore.ErrFull)
	if text := err.Error(); !strings.Contains(text, key) || !strings.Contains(text, "want at most") {
		w.failf("a push of 100 rows where 40 fit: got error %q, want one with the key, its rows and their limit", text)
	}
}

func badTables(w *Worker) {
	for _, t := range []kvstore.Table{
		{}, {RowLen: -1}, {Rows: -1, RowLen: 1}, {Rows: math.MaxInt64 / 2, RowLen: 8}, {RowLen: 1, MaxRows: -1}, {Rows: 4, RowLen: 1, MaxRows: 5},
	} {
		w.is(fmt.Sprintf("init of %+v", t), w.Store.InitTable(w.Ctx, w.key("x"), t), kvstore.ErrSize)
	}
	for _, i := range []kvstore.Initializer{
		{Name: "ones"}, {Low: 1}, {Name: "uniform", Low: 2, High: 1}, {Name: "uniform", High: math.NaN()}, {Name: "uniform", Deviation: 1},
		{Name: "normal", Deviation: -1}, {Name: "normal", Mean: math.Inf(1)}, {Name: "normal", High: 1},
	} {
		if err := w.Store.InitTable(w.Ctx, w.key("x"), kvstore.Table{RowLen: 1, Initializer: i}); err == nil {
			w.failf("init with %+v: got no error", i)
		}
	}
	w.ok(w.Store.InitTable(w.Ctx, w.key("x"), kvstore.Table{RowLen: 1}))
	w.is("init a second time", w.Store.InitTable(w.Ctx, w.key("x"), kvstore.Table{RowLen: 1}), kvstore.ErrDuplicateInit)
	w.is("too few values", w.Store.PushRows(w.Ctx, w.key("x"), []int64{1, 2}, make([]float32, 1)), kvstore.ErrSize)
	w.is("a dense pull", w.Store.Pull(w.Ctx, w.key("x"), make([]float32, 1)), kvstore.ErrUnsupported)
}
