package op

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Embedding looks rows up: y[..., :] = W[ids[...], :].
//
// Arguments: W (Rows,Dim), ids of IDDims dimensions with 0 ≤ id < Rows.
// Result: y (ids' shape..., Dim).
// Gradient: dW by EmbeddingGrad; ids have none.
type Embedding struct {
	traits
	IDDims int
}

func (o *Embedding) Arity() int { return 2 }
func (o *Embedding) Type() hm.Type {
	return hm.NewFnType(tensorType(2, 'a'), tensorType(o.IDDims, 'i'), tensorType(o.IDDims+1, 'a'))
}
func (o *Embedding) String() string        { return fmt.Sprintf("Embedding{ids %d}", o.IDDims) }
func (o *Embedding) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Embedding) Hashcode() uint32      { return hashcode(o) }
func (o *Embedding) DiffWRT(int) []bool    { return []bool{true, false} }

func (o *Embedding) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, 2, o.IDDims)
	if err != nil {
		return nil, err
	}
	return append(s[1].Clone(), s[0][1]), nil
}

func (o *Embedding) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, embedding[float32], embedding[float64])
}

func embedding[T float](o *Embedding, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	w, rows, dim := numbers[T](in[0]), in[0].Shape()[0], in[0].Shape()[1]
	ids, err := rowIDs(o, in[1], rows)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		copy(y[i*dim:(i+1)*dim], w[id*dim:(id+1)*dim])
	}
	return out, nil
}

func rowIDs(o gorgonia.Op, v gorgonia.Value, rows int) ([]int, error) {
	ids, err := Indices(v)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		if id < 0 || id >= rows {
			return nil, fmt.Errorf("op: do %v: id %d at position %d, want 0 to %d", o, id, i, rows-1)
		}
	}
	return ids, nil
}

func (o *Embedding) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	dw, err := Apply(&EmbeddingGrad{IDDims: o.IDDims, Rows: in[0].Shape()[0]}, in[1], grad)
	return gorgonia.Nodes{dw, nil}, err
}

// EmbeddingGrad is dW[r, :] = Σ dy[..., :] over the positions whose id is r,
// dense: rows that no id names are zero.
//
// Arguments: ids of IDDims dimensions, dy (ids' shape..., Dim). Result: dW (Rows,Dim).
type EmbeddingGrad struct {
	gradient
	IDDims int
	Rows   int
}

func (o *EmbeddingGrad) Arity() int { return 2 }
func (o *EmbeddingGrad) Type() hm.Type {
	return hm.NewFnType(tensorType(o.IDDims, 'i'), tensorType(o.IDDims+1, 'a'), tensorType(2, 'a'))
}
func (o *EmbeddingGrad) String() string {
	return fmt.Sprintf("EmbeddingGrad{ids %d rows %d}", o.IDDims, o.Rows)
}
func (o *EmbeddingGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *EmbeddingGrad) Hashcode() uint32      { return hashcode(o) }

func (o *EmbeddingGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, err := argShapes(o, ds, o.IDDims, o.IDDims+1)
	if err != nil {
		return nil, err
	}
	if !s[1][:o.IDDims].Eq(s[0]) {
		return nil, fmt.Errorf("op: %v: ids are %v and dy is %v", o, s[0], s[1])
	}
	return tensor.Shape{o.Rows, s[1][o.IDDims]}, nil
}

func (o *EmbeddingGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 1, in, embeddingGrad[float32], embeddingGrad[float64])
}

func embeddingGrad[T float](o *EmbeddingGrad, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, dw := dense[T](shape)
	dy, dim := numbers[T](in[1]), shape[1]
	ids, err := rowIDs(o, in[0], o.Rows)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		for k := range dim {
			dw[id*dim+k] += dy[i*dim+k]
		}
	}
	return out, nil
}
