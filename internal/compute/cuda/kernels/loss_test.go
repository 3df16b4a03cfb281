//go:build linux && (amd64 || arm64) && !android && !nocuda

package kernels

import (
	"fmt"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

var logits = [][2]int{{1, 1}, {1, 10}, {7, 3}, {40, 10}, {9, 65}, {300, 2}, {2, 1000}}

func TestSoftmax(t *testing.T) {
	everyWay(t, func(b *box, typ Type) {
		for _, s := range logits {
			n := s[0] * s[1]
			xv, dyv := mapped(random(31, n), func(x float64) float64 { return 8 * x }), random(32, n)
			x, dy := b.put(typ, xv), b.put(typ, dyv)
			y, dx := b.empty(typ, n), b.empty(typ, n)
			b.must(b.Softmax(0, typ, s[0], s[1], y, x))
			near(b.t, fmt.Sprint(s), typ, b.get(typ, y, n), numbersOf(do(b.t, &op.Softmax{Axis: 1}, dense(xv, s[0], s[1]))[0]), 20)
			yv := b.get(typ, y, n)
			b.must(b.SoftmaxGrad(0, typ, s[0], s[1], dx, y, dy))
			near(b.t, fmt.Sprint(s, " gradient"), typ, b.get(typ, dx, n), numbersOf(do(b.t, &op.SoftmaxGrad{Axis: 1}, dense(yv, s[0], s[1]), dense(dyv, s[0], s[1]))[0]), 40)
			b.must(b.Softmax(0, typ, s[0], s[1], x, x))
			same(b.t, fmt.Sprint(s, " in place"), b.get(typ, x, n), yv)
		}
	})
}

func TestCrossEntropyLeavesOutRowsWithoutLabel(t *testing.T) {
	everyWay(t, func(b *box, typ Type) {
		for _, s := range logits {
			for _, missing := range []int{0, 3, 1} { // no row, every third, every one
				smoothing := map[int]float64{0: 0.25, 3: 0.1}[missing]
				rows, classes := s[0], s[1]
				n := rows * classes
				xv := mapped(random(33, n), func(x float64) float64 { return 5*x + 30 })
				ids, labels := make([]int, rows), make([]float64, rows)
				for i := range ids {
					if ids[i] = (i * 7) % classes; missing > 0 && i%missing == 0 {
						ids[i] = -1
					}
					labels[i] = float64(ids[i])
				}
				x, l := b.put(typ, xv), b.put(Int32, labels)
				dloss, bad := b.put(Float32, []float64{1.5}), b.put(Int32, []float64{0})
				c := CrossEntropy{Type: typ, Rows: rows, Classes: classes, X: x, Labels: l, Loss: b.empty(Float32, 1), DX: b.empty(typ, n),
					DLoss: dloss, Scale: 2, Smoothing: float32(smoothing), Bad: bad, Workspace: b.empty(Float32, rows)}
				lt := tensor.New(tensor.WithShape(rows), tensor.WithBacking(ids))
				loss, err := (&op.SoftmaxCrossEntropy{Smoothing: smoothing}).Do(dense(xv, rows, classes), lt)
				if err != nil {
					b.t.Fatal(err)
				}
				grad := numbersOf(do(b.t, &op.SoftmaxCrossEntropyGrad{Smoothing: smoothing}, dense(xv, rows, classes), lt, gorgonia.NewF64(3))[0])
				if missing == 1 {
					// The reference divides zero by zero rows only where it writes.
					clear(grad)
				}
				b.must(b.CrossEntropy(0, c))
				what := fmt.Sprint(s, " missing ", missing)
				near(b.t, what+" loss", Float32, b.get(Float32, c.Loss, 1), []float64{loss.Data().(float64)}, 40)
				near(b.t, what+" dx", typ, b.get(typ, c.DX, n), grad, 40)
				if got := b.get(Int32, bad, 1)[0]; got != 0 {
					b.t.Fatalf("%s: bad is %v, want 0", what, got)
				}
				c.Loss, c.DX = b.empty(Float32, 1), 0
				b.must(b.CrossEntropy(0, c))
				near(b.t, what+" loss alone", Float32, b.get(Float32, c.Loss, 1), []float64{loss.Data().(float64)}, 40)
				c.Loss, c.DX, c.Workspace = 0, x, 0
				b.must(b.CrossEntropy(0, c))
				near(b.t, what+" dx in place", typ, b.get(typ, x, n), grad, 40)
				b.reset()
			}
		}
		x, l, bad := b.put(typ, random(34, 20)), b.put(Int32, []float64{3, 10}), b.put(Int32, []float64{0})
		b.must(b.CrossEntropy(0, CrossEntropy{Type: typ, Rows: 2, Classes: 10, X: x, Labels: l, DX: b.empty(typ, 20), Bad: bad}))
		if got := b.get(Int32, bad, 1)[0]; got != 1 {
			b.t.Fatalf("bad is %v after label 10 of 10 classes, want 1", got)
		}
	})
}

func TestMSE(t *testing.T) {
	everyWay(t, func(b *box, typ Type) {
		for _, n := range []int{1, 9, 4096, 30001} {
			if n > 9 && b.order != 5 {
				continue
			}
			xv, tv := random(35, n), random(36, n)
			x, target := b.put(typ, xv), b.put(typ, tv)
			loss, dloss, workspace, dx := b.empty(Float32, 1), b.put(Float32, []float64{0.5}), b.room(int(b.MSEWorkspace())), b.empty(typ, n)
			b.must(b.MSE(0, typ, int64(n), loss, x, target, workspace))
			want, err := (&op.MSE{Dims: 1}).Do(dense(xv, n), dense(tv, n))
			if err != nil {
				b.t.Fatal(err)
			}
			near(b.t, "mse", Float32, b.get(Float32, loss, 1), []float64{want.Data().(float64)}, 40)
			b.must(b.MSEGrad(0, typ, int64(n), dx, x, target, dloss, 4))
			near(b.t, "mse gradient", typ, b.get(typ, dx, n), numbersOf(do(b.t, &op.MSEGrad{Dims: 1}, dense(xv, n), dense(tv, n), gorgonia.NewF64(2))[0]), 4)
		}
	})
}

func TestEmbeddingAndItsGradientInTheOrderOfIDs(t *testing.T) {
	everyWay(t, func(b *box, typ Type) {
		for _, s := range [][3]int{{1, 1, 1}, {5, 3, 7}, {70, 9, 8}, {100, 200, 33}, {33, 2, 520}} { // ids, rows, dim
			n, rows, dim := s[0], s[1], s[2]
			ids, at := make([]int, n), make([]float64, n)
			for i := range ids {
				ids[i] = (i*i + 3*i) % rows
				at[i] = float64(ids[i])
			}
			it := tensor.New(tensor.WithShape(n), tensor.WithBacking(ids))
			wv, dyv := random(37, rows*dim), random(38, n*dim)
			idp, bad, dy := b.put(Int32, at), b.put(Int32, []float64{0}), b.put(typ, dyv)
			for _, from := range []Type{Float32, typ} {
				w, y := b.put(from, wv), b.empty(typ, n*dim)
				want := numbersOf(do(b.t, &op.Embedding{IDDims: 1}, dense(wv, rows, dim), it)[0])
				b.must(b.Embedding(0, typ, from, n, rows, dim, y, w, idp, bad))
				near(b.t, fmt.Sprint(s), typ, b.get(typ, y, n*dim), want, 0)
			}
			dw := b.empty(Float32, rows*dim)
			b.must(b.EmbeddingGrad(0, typ, n, rows, dim, dw, idp, dy))
			want := make([]float32, rows*dim) // the very sums, in their order
			for i, id := range ids {
				for k := range dim {
					want[id*dim+k] += float32(dyv[i*dim+k])
				}
			}
			wide := make([]float64, len(want))
			for i, v := range want {
				wide[i] = float64(v)
			}
			same(b.t, fmt.Sprint(s, " gradient"), b.get(Float32, dw, rows*dim), wide)
			if got := b.get(Int32, bad, 1)[0]; got != 0 {
				b.t.Fatalf("bad is %v, want 0", got)
			}
			b.reset()
		}
		w, idp, bad, y := b.put(typ, random(39, 12)), b.put(Int32, []float64{1, -1, 4}), b.put(Int32, []float64{0}), b.empty(typ, 9)
		b.must(b.Embedding(0, typ, typ, 3, 4, 3, y, w, idp, bad))
		if got := b.get(Int32, bad, 1)[0]; got != 1 {
			b.t.Fatalf("bad is %v after id 4 of 4 rows, want 1", got)
		}
		if got := b.get(typ, y, 9)[3:]; got[0] != 0 || got[5] != 0 {
			b.t.Fatalf("rows of ids that are not there are %v, want zeros", got)
		}
		dw := b.empty(Float32, 12)
		b.must(b.EmbeddingGrad(0, typ, 3, 4, 3, dw, idp, y))
	})
}
