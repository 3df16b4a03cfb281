package cpu

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A lookup has the kernels of a table whose rows are read by their numbers.
type lookup struct {
	mem     *memory
	threads threads
}

func (l *lookup) builders() builders {
	return builders{plan.Embedding: l.embedding, plan.EmbeddingGrad: l.embeddingGrad}
}

// ids checks that the ids name rows of a table, and returns how to read them.
func (l *lookup) ids(v *plan.Value, rows int) (func() (func(i int) int, error), error) {
	read, err := l.mem.indices(v)
	if err != nil {
		return nil, err
	}
	n := v.Len()
	return func() (func(i int) int, error) {
		at := read()
		for i := range n {
			if id := at(i); id < 0 || id >= rows {
				return nil, fmt.Errorf("id %d at position %d, want 0 to %d", id, i, rows-1)
			}
		}
		return at, nil
	}, nil
}

// embedding copies rows of a table. All ids are checked before the first row is copied.
func (l *lookup) embedding(o *plan.Op) (kernel, error) {
	rows, dim := o.In[0].Shape[0], o.In[0].Shape[1]
	return kernel{bind: func() func() error {
		y, w := l.mem.floats(o.Out[0]), l.mem.floats(o.In[0])
		ids, err := l.ids(o.In[1], rows)
		if err != nil {
			return func() error { return err }
		}
		var at func(i int) int
		look := l.threads.split(o.In[1].Len(), rowGrain(dim), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				id := at(i)
				copy(y[i*dim:(i+1)*dim], w[id*dim:(id+1)*dim])
			}
		})
		return func() error {
			if at, err = ids(); err != nil {
				return err
			}
			look()
			return nil
		}
	}}, nil
}

// embeddingGrad adds rows in the order of the ids, to zeros or to the rest of the gradient.
func (l *lookup) embeddingGrad(o *plan.Op) (kernel, error) {
	rows, dim := o.Out[0].Shape[0], o.Out[0].Shape[1]
	return kernel{bind: func() func() error {
		dw, dy := l.mem.floats(o.Out[0]), l.mem.floats(o.In[1])
		ids, err := l.ids(o.In[0], rows)
		if err != nil {
			return func() error { return err }
		}
		begin := l.threads.split(len(dw), grain, func(lo, hi int) { clear(dw[lo:hi]) })
		if len(o.In) > 2 {
			begin = func() {}
			if rest := l.mem.floats(o.In[2]); &rest[0] != &dw[0] {
				begin = l.threads.split(len(dw), grain, func(lo, hi int) { copy(dw[lo:hi], rest[lo:hi]) })
			}
		}
		n := o.In[0].Len()
		return func() error {
			at, err := ids()
			if err != nil {
				return err
			}
			begin()
			for i := range n {
				id := at(i)
				f32.AddTo(dw[id*dim:(id+1)*dim], dy[i*dim:(i+1)*dim])
			}
			return nil
		}
	}}, nil
}
