package cuda

import (
	"fmt"
	"maps"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A families is what prepares the ops of a plan. Ops that are computed alike are a family, which
// holds what their launches need and nothing else.
type families struct {
	lowerers lowerers

	// convolutions, products and norms have plans of the libraries, which are closed with the
	// executor.
	convolutions *convolutions
	products     *products
	norms        *norms
}

// newFamilies prepares the ops of a plan on a GPU.
func newFamilies(g *GPU, p *plan.Plan, at *places, own *owned, ex *examples) *families {
	f := &families{
		lowerers:     lowerers{},
		convolutions: &convolutions{gpu: g, owned: own, ops: p.Ops, plans: make(map[convKey]convPlan)},
		products:     &products{gpu: g, plans: make(map[product]productPlan)},
		norms:        &norms{gpu: g, plan: p, store: at.store, states: at.host.States, owned: own, examples: ex, masks: make(map[*plan.Value]drv.Ptr)},
	}
	for _, family := range []lowerers{
		(&elementwise{gpu: g, numbers: at.numbers}).lowerers(),
		(&layouts{gpu: g, inputs: at.inputs}).lowerers(),
		(&biases{gpu: g}).lowerers(),
		f.convolutions.lowerers(),
		f.products.lowerers(),
		f.norms.lowerers(),
		(&pools{gpu: g}).lowerers(),
		(&losses{gpu: g, examples: ex}).lowerers(),
		(&lookups{gpu: g}).lowerers(),
	} {
		maps.Copy(f.lowerers, family)
	}
	return f
}

// lower prepares one op.
func (f *families) lower(l *lowering) (lowered, error) {
	if l.o.Behind != nil {
		return lowered{}, fmt.Errorf("there is no kernel for the %s behind this op", l.o.Behind.Function)
	}
	prepare, ok := f.lowerers[l.o.Kind]
	if !ok {
		return lowered{}, fmt.Errorf("there is no kernel for this op")
	}
	return prepare(l)
}

// close closes the libraries' plans. f may be nil.
func (f *families) close() (errs []error) {
	if f == nil {
		return nil
	}
	errs = append(f.convolutions.close(), f.norms.close())
	return append(errs, f.products.close()...)
}
