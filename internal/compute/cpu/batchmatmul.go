package cpu

import (
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

// batchMatMul is a matrix product for each of some pairs of matrices. Each thread does whole ones,
// unless there are too few of them for all threads: then all do one after the other. An element's
// sum is added in one order either way.
func (p *products) batchMatMul(o *plan.Op) (kernel, error) {
	a := o.Attr.(*op.MatMul)
	m, k, n := a.Sizes(o.In[0].Shape, o.In[1].Shape)
	batches := o.Out[0].Len() / (m * n)
	return kernel{bind: func() func() error {
		y, x, w := p.mem.floats(o.Out[0]), p.mem.floats(o.In[0]), p.mem.floats(o.In[1])
		one := func(g *f32.Gemm, i int) {
			g.Mul(f32.Dense(rowAt(y, i, m*n), m, n), 1, matrixOf(rowAt(x, i, m*k), m, k, o.TransA), matrixOf(rowAt(w, i, k*n), k, n, o.TransB), 0)
		}
		if threads := p.threads.pool.Threads(); batches >= 2*threads {
			for len(p.alone) < threads {
				p.alone = append(p.alone, f32.NewGemm(&pool.Pool{}))
			}
			return then(p.threads.splitThreads(batches, max(1, smallProducts/(m*k*n)), func(thread, lo, hi int) {
				for i := lo; i < hi; i++ {
					one(p.alone[thread], i)
				}
			}))
		}
		return then(func() {
			for i := range batches {
				one(p.gemm, i)
			}
		})
	}}, nil
}

// smallProducts is the number of multiply-adds that are handed out together at least.
const smallProducts = 1 << 18

// matrixOf is the rows×cols matrix in data, which has its transpose if trans.
func matrixOf(data []float32, rows, cols int, trans bool) f32.Mat {
	if trans {
		return f32.Dense(data, cols, rows).T()
	}
	return f32.Dense(data, rows, cols)
}
