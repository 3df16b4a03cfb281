package kernels

import "github.com/paragon-train/paragon/internal/compute/cuda/drv"

// Embedding sets y[i,:] = w[ids[i],:] for n ids, w (rows,dim) of type from and y (n,dim) of type
// to: the same, or narrower than Float32. An id outside of 0 to rows−1 gives a row of zeros and
// sets bad[0] (a uint32; 0: not wanted) to 1.
func (k *Set) Embedding(s drv.Stream, to, from Type, n, rows, dim int, y, w, ids, bad drv.Ptr) error {
	l := k.begin("embedding", s)
	l.types(to, from).sizes(n, rows, dim).pointers(y, w, ids)
	if from != to && from != Float32 {
		return l.fail("got a table of %v and a result of %v, want the same or a table of f32", from, to)
	}
	l.a.ptr(y, w, ids, bad).i32(n, rows, dim).flag(aligned(y, w) && dim%8 == 0)
	numbers := int64(n) * int64(dim)
	return l.byRow(suffix2(from, to), n, from.Size()*numbers+4*int64(n), to.Size()*numbers)
}

// EmbeddingGrad sets dw[r,:] = Σ dy[i,:] over the i with ids[i] = r, in the order of i; rows that
// no id names are zero. dw is (rows,dim) float32, dy (n,dim). Ids outside of 0 to rows−1 are left
// out.
//
// It compares ids in pairs, n²/32 steps in all: fast for tens of thousands of ids.
func (k *Set) EmbeddingGrad(s drv.Stream, t Type, n, rows, dim int, dw, ids, dy drv.Ptr) error {
	if err := k.Fill(s, Float32, int64(rows)*int64(dim), dw, 0); err != nil {
		return err
	}
	l := k.begin("embedding_grad", s)
	l.types(t).sizes(n, rows, dim).pointers(dw, ids, dy)
	l.a.ptr(dw, ids, dy).i32(n, rows, dim)
	numbers := int64(n) * int64(dim)
	return l.byRow(suffix(t), n, t.Size()*numbers+4*int64(n), 4*numbers)
}
