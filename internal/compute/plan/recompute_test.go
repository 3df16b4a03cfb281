package plan_test

import (
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// branch is the feed-forward branch of a transformer, and the sum with what it comes from.
func (n net) branch(x *gorgonia.Node, name string, function op.Function) *gorgonia.Node {
	width := x.Shape()[1]
	norm := n.apply(&op.RowNorm{Dims: 2, Eps: 1e-5, Bias: true}, x, n.param(name+".ln.weight", width), n.param(name+".ln.bias", width))
	y := n.apply(&op.Take{Shape: x.Shape(), From: 2}, norm)
	h := n.apply(&op.Linear{Bias: true}, y, n.param(name+".up.weight", 4*width, width), n.param(name+".up.bias", 4*width))
	h = n.apply(&op.Activation{Function: function}, h)
	return n.apply(&op.Add{}, x, n.apply(&op.Linear{Bias: true}, h, n.param(name+".down.weight", width, 4*width), n.param(name+".down.bias", width)))
}

func buildTwice(t *testing.T, loss *gorgonia.Node) (kept, again *plan.Plan) {
	t.Helper()
	params, grads, err := op.Gradients(loss)
	if err != nil {
		t.Fatal(err)
	}
	r := plan.Request{Root: loss, Params: params, Grads: grads, Seed: loss.Deriv()}
	if kept, err = plan.Build(r); err != nil {
		t.Fatal(err)
	}
	r.Recompute = true
	if again, err = plan.Build(r); err != nil {
		t.Fatal(err)
	}
	kept.Place()
	again.Place()
	return kept, again
}

func TestNormalisedRowsAndActivationsAreComputedAgain(t *testing.T) {
	n := newNet(t)
	x := n.apply(&op.Linear{Bias: true}, n.input("x", tensor.Float32, 16, 64), n.param("in.weight", 64, 64), n.param("in.bias", 64))
	for _, name := range []string{"a", "b", "c", "d"} {
		x = n.branch(x, name, op.GELU)
	}
	kept, again := buildTwice(t, n.loss(x))
	count := make(map[plan.Kind]int)
	for i, o := range again.Ops {
		count[o.Kind]++
		if again.Forward[i] {
			continue
		}
		switch o.Kind {
		case plan.RowNorm, plan.Activation:
			if next := again.Ops[i+1]; next.Kind != plan.LinearGrad || next.In[0].Root() != o.Out[0] {
				t.Errorf("%v is computed again in front of %v, want the gradient that reads it", o, next)
			}
			for _, statistic := range o.Out[1:] {
				if statistic != nil {
					t.Errorf("%v makes more than the rows", o)
				}
			}
		}
	}
	if count[plan.RowNorm] != 8 || count[plan.Activation] != 8 {
		t.Errorf("got %d normalisations and %d activations, want 4 of each, twice\n%v", count[plan.RowNorm], count[plan.Activation], again)
	}
	// Of the 64+256+256 numbers of a row that a branch keeps, besides what it begins with, 256 stay,
	// of all but the one whose gradient is being computed.
	if got, most := again.Memory.Live, kept.Memory.Live*7/10; got > most {
		t.Errorf("the most that is alive is %d bytes, and %d without computing again, want at most %d", got, kept.Memory.Live, most)
	}
}

// The gradient of what keeps its result reads that, and its argument is not kept: nothing is computed
// again. Nor is anything of convolutions.
func TestWhatIsKeptAnywayIsNotComputedAgain(t *testing.T) {
	n := newNet(t)
	kept, again := buildTwice(t, n.loss(n.apply(&op.Activation{Function: op.Tanh}, n.apply(&op.Linear{}, n.input("x", tensor.Float32, 16, 64), n.param("w", 64, 64)))))
	if kinds(kept) != kinds(again) {
		t.Errorf("ops are\n%s\nwant\n%s", kinds(again), kinds(kept))
	}
	kept, again = buildTwice(t, newNet(t).block())
	if kinds(kept) != kinds(again) || kept.Memory != again.Memory {
		t.Errorf("ops are\n%s\nwant\n%s", kinds(again), kinds(kept))
	}
}
