package plan

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/tensor"
)

// attention has lse as a second result.
func (l *lowering) attention(o *op.Attention) error {
	z, err := l.attentionSizes(&o.AttentionForm)
	if err != nil {
		return err
	}
	return l.emit(Attention, RowMajor, []tensor.Shape{{z.B, z.H, z.T}})
}

func (l *lowering) attentionSizes(f *op.AttentionForm) (op.AttentionSizes, error) {
	shapes := make([]tensor.Shape, f.Arguments())
	for i := range shapes {
		shapes[i] = l.in[i].Shape
	}
	z, err := f.Sizes(shapes)
	if err != nil {
		return z, fmt.Errorf("plan: node %q: %v: %w", l.n.Name(), l.n.Op(), err)
	}
	return z, nil
}

// attentionGrad takes o and lse out of the tuple.
func (l *lowering) attentionGrad(o *op.AttentionGrad) error {
	n := o.Forward.Arguments()
	saved := l.b.nodes[l.children[n]]
	if len(saved) != 2 {
		return fmt.Errorf("plan: node %q: %v: argument %d is %q, want an attention", l.n.Name(), l.n.Op(), n, l.children[n].Name())
	}
	do := l.in[n+1]
	l.in = append(l.in[:n:n], saved[0], saved[1], do)
	var more []tensor.Shape
	for i := 1; i < n; i++ {
		if !o.Forward.Integers(i) {
			more = append(more, l.in[i].Shape)
		}
	}
	return l.emit(AttentionGrad, RowMajor, more)
}
