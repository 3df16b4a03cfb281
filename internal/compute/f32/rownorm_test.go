package f32

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestPassesOverARowAreTheirFormulas(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		for _, n := range lengths {
			checkRow(t, r, n)
		}
	})
}

// checkRow compares all passes over a row of n numbers with their formulas.
func checkRow(t *testing.T, r *rand.Rand, n int) {
	t.Helper()
	x, w, b, dy, add := normal(r, n), normal(r, n), normal(r, n), normal(r, n), normal(r, n)
	const mean, rstd, meanG, meanGX = float32(0.25), float32(1.5), float32(-0.5), float32(0.75)
	close := func(what string, got float32, want float64) {
		t.Helper()
		if !near(float64(got), want, 2e-6*math.Sqrt(float64(n)+1)) {
			t.Fatalf("%s of %d values: got %g, want %g", what, n, got, want)
		}
	}
	hat := func(i int) float64 { return (float64(x[i]) - float64(mean)) * float64(rstd) }

	var sum, squares, sumG, sumGX float64
	for i := range x {
		d, g := float64(x[i])-float64(mean), float64(dy[i])*float64(w[i])
		sum, squares, sumG, sumGX = sum+d, squares+d*d, sumG+g, sumGX+g*hat(i)
	}
	gotSum, gotSquares := RowMoments(x, mean)
	close("RowMoments' sum", gotSum, sum)
	close("RowMoments' squares", gotSquares, squares)

	for _, bias := range [][]float32{nil, b} {
		y, all := guarded(r, n)
		NormRow(y, x, w, bias, mean, rstd)
		for i := range y {
			want := hat(i) * float64(w[i])
			if bias != nil {
				want += float64(b[i])
			}
			close("NormRow", y[i], want)
		}
		intact(t, "NormRow", all, n)
		again := append([]float32(nil), x...)
		NormRow(again, again, w, bias, mean, rstd)
		for i := range y {
			close("NormRow in place", again[i], float64(y[i]))
		}
	}

	for _, bias := range []bool{false, true} {
		dw, allW := guarded(r, n)
		db, allB := guarded(r, n)
		oldW, oldB := append([]float32(nil), dw...), append([]float32(nil), db...)
		if !bias {
			db = nil
		}
		g, gx := NormRowSums(dw, db, dy, x, w, mean, rstd)
		close("NormRowSums' g", g, sumG)
		close("NormRowSums' gx", gx, sumGX)
		for i := range dw {
			close("NormRowSums' dw", dw[i], float64(oldW[i])+float64(dy[i])*hat(i))
			if bias {
				close("NormRowSums' db", db[i], float64(oldB[i])+float64(dy[i]))
			}
		}
		intact(t, "NormRowSums' dw", allW, n)
		intact(t, "NormRowSums' db", allB, n)
	}

	for _, more := range [][]float32{nil, add} {
		dx, all := guarded(r, n)
		NormRowGrad(dx, dy, x, w, more, mean, rstd, meanG, meanGX)
		for i := range dx {
			want := float64(rstd) * (float64(dy[i])*float64(w[i]) - float64(meanG) - hat(i)*float64(meanGX))
			if more != nil {
				want += float64(add[i])
			}
			close("NormRowGrad", dx[i], want)
		}
		intact(t, "NormRowGrad", all, n)
	}
}

// The numbers are those of a row of 384, in the first-level cache.
func BenchmarkRowNorm(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 384
	x, w, bias, dy, y, dw, db := normal(r, n), normal(r, n), normal(r, n), normal(r, n), normal(r, n), normal(r, n), normal(r, n)
	for _, p := range Available() {
		old := kernels
		kernels = kernelsFor(p)
		b.Run("forward "+p.String(), func(b *testing.B) {
			b.SetBytes(8 * n)
			for range b.N {
				m := Sum(x) / n
				RowMoments(x, m)
				NormRow(y, x, w, bias, m, 1)
			}
		})
		b.Run("backward "+p.String(), func(b *testing.B) {
			b.SetBytes(12 * n)
			for range b.N {
				clear(dw)
				NormRowSums(dw, db, dy, x, w, 0.1, 1)
				NormRowGrad(y, dy, x, w, nil, 0.1, 1, 0.1, 0.1)
			}
		})
		kernels = old
	}
}
