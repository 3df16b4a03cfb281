package cuda

import (
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A lookups has the launches of tables whose rows are read by their numbers.
type lookups struct{ gpu *GPU }

func (f *lookups) lowerers() lowerers {
	return lowerers{plan.Embedding: f.embedding, plan.EmbeddingGrad: f.embeddingGrad}
}

// embedding copies rows of a table. Numbers of rows were checked on the host, where an error can
// say which one is wrong.
func (f *lookups) embedding(l *lowering) (lowered, error) {
	o := l.o
	rows, dim, n := o.In[0].Shape[0], o.In[0].Shape[1], o.In[1].Len()
	return l.done(func() launch {
		to, from, y, w, ids := typeOf(o.Out[0]), typeOf(o.In[0]), l.at(o.Out[0]), l.at(o.In[0]), l.at(o.In[1])
		return func(s drv.Stream) error { return f.gpu.kernels.Embedding(s, to, from, n, rows, dim, y, w, ids, 0) }
	}), nil
}

// embeddingGrad adds gradients to the rows that were read. The kernel adds in the order of
// positions, so that the sum does not depend on which thread comes first.
func (f *lookups) embeddingGrad(l *lowering) (lowered, error) {
	o := l.o
	rows, dim, n := o.Out[0].Shape[0], o.Out[0].Shape[1], o.In[0].Len()
	return l.done(func() launch {
		t, dw, ids, dy := typeOf(o.In[1]), l.at(o.Out[0]), l.at(o.In[0]), l.at(o.In[1])
		return func(s drv.Stream) error { return f.gpu.kernels.EmbeddingGrad(s, t, n, rows, dim, dw, ids, dy) }
	}), nil
}
