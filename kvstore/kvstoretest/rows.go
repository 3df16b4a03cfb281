package kvstoretest

import (
	"fmt"
	"math/rand/v2"
)

// (2, 3) of ones; each worker pushes r+1 in the one row r mod 2: row k = 1 + Σ_{r ≡ k mod 2} (r+1)·2·(i+1).
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
	for _, shape := range [][2]int{{2, 3}, {1200, 1200}} {
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

// 1200 rows of 1200; of some random rows worker r pushes every 2(r+1)-th.
func bigRows(w *Worker) {
	const n = 1200
	key := w.key("big")
	w.ok(w.Store.InitRows(w.Ctx, key, n, n, fill(n*n, 1)))
	random := rand.New(rand.NewPCG(9, 9)) // the same on all workers
	for i := range 2 {
		var ids []int64
		for j := range n {
			if random.Float32() < 0.3 {
				ids = append(ids, int64(j))
			}
		}
		before := make([]float32, len(ids)*n)
		w.pullRows(key, ids, before)
		w.barrier() // before the others push
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
