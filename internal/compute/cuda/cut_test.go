package cuda

import (
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/tensor"
)

// chain is a plan of layers with one parameter each, of so many float32 numbers: ops 0 to n-1 are
// the forward pass, the last of which makes the loss, ops n to 2n-1 make gradients from the last
// layer to the first.
func chain(sizes ...int) *plan.Plan {
	n := len(sizes)
	p := &plan.Plan{Loss: &plan.Value{Source: plan.Output}, Inference: true,
		Forward: make([]bool, 2*n), Ready: make([][]int, 2*n)}
	for i, size := range sizes {
		p.Params = append(p.Params, &plan.Value{Source: plan.Parameter, Index: i, Shape: tensor.Shape{size}, Bytes: 4})
		p.Forward[i] = true
	}
	p.Grads = p.Params
	for i := range 2 * n {
		o := &plan.Op{Kind: plan.Copy}
		if i < n {
			o.In = []*plan.Value{p.Params[i]}
		} else {
			p.Ready[i] = []int{2*n - 1 - i}
		}
		if i == n-1 {
			o.Out = []*plan.Value{p.Loss}
		}
		p.Ops = append(p.Ops, o)
	}
	return p
}

func TestPlansAreCutWhereEnoughTravels(t *testing.T) {
	ops := func(s *schedule) (cut [][]int) {
		for _, g := range s.segments {
			cut = append(cut, g.ops)
		}
		return cut
	}
	equal := func(a, b [][]int) bool { return slices.EqualFunc(a, b, slices.Equal[[]int]) }
	p := chain(64, 64, 64)
	for _, test := range []struct {
		name            string
		bucket          int64
		travel, forward bool
		want            [][]int
		outputs         int
	}{
		{"a bucket has everything", 1 << 20, true, false, [][]int{{0, 1, 2}, {3, 4, 5}}, 0},
		{"each gradient is a bucket", 256, true, false, [][]int{{0}, {1}, {2}, {3}, {4}, {5}}, 2},
		{"neither travels", 256, false, false, [][]int{{0, 1, 2}, {3, 4, 5}}, 0},
		{"forward only", 1 << 20, true, true, [][]int{{0, 1, 2}}, 0},
	} {
		s := cutPlan(p, test.bucket, test.travel, test.forward)
		if got := ops(s); !equal(got, test.want) || s.outputs != test.outputs {
			t.Errorf("%s: got segments of ops %v, outputs after %d, want %v and %d", test.name, got, s.outputs, test.want, test.outputs)
		}
		var waits []int
		for _, g := range s.segments {
			waits = append(waits, g.waits...)
		}
		if !slices.Equal(waits, []int{0, 1, 2}) {
			t.Errorf("%s: parameters %v are waited for, want each once", test.name, waits)
		}
	}
}
