package cuda_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// sized is a small model for a batch size.
func sized(batch int) model {
	return classifier("sized", batch, []int{3, 4, 4}, func(x *gorgonia.Node) *gorgonia.Node {
		x = nn.ReLU(nn.BatchNorm2D(conv(x, "conv0", 8, 3, 1, 1), "bn0", nn.BatchNormConfig{}))
		return nn.Linear(nn.GlobalAvgPool2D(x), "fc", nn.LinearConfig{Out: 5})
	})
}

// shareWith compiles a model over the host's parameters, gradients and statistics of another
// program.
func shareWith(t *testing.T, m model, gpu *cuda.GPU, first *program) (*program, error) {
	t.Helper()
	p, loss := build(t, m, false, nil)
	h := newHost(p)
	h.Params, h.Grads, h.States, h.Blocks = first.host.Params, first.host.Grads, first.host.States, first.host.Blocks
	e, err := cuda.New(p, h, cuda.Config{GPU: gpu, Share: first.Executor})
	return &program{e, p, h, loss}, err
}

// An executor whose memory cannot be had, at whatever point, leaves those that it was to share with
// as they were.
func TestAnExecutorThatCannotShareLeavesTheOthersAsTheyAre(t *testing.T) {
	for _, setting := range []string{"oom_at", "host_oom_at"} {
		t.Run(setting, func(t *testing.T) {
			machine := fake.New(t)
			gpu := open(t, machine)
			first := compile(t, sized(2), cuda.Config{GPU: gpu})
			first.fill(t, nil, 5, 1)
			for range 3 { // launch by launch, captured, as graphs
				first.step(t)
			}
			wantLoss, want := first.number(t), clones(first.host.Grads)
			check := func(when string) {
				t.Helper()
				if got := first.step(t); got != wantLoss {
					t.Errorf("%s: the loss is %g, want %g", when, got, wantLoss)
				}
				for i, v := range first.plan.Params {
					if !slices.Equal(first.host.Grads[i], want[i]) {
						t.Errorf("%s: the gradient of %s is another", when, v.Name)
					}
				}
			}
			live, arena := fmt.Sprint(machine.Live()), first.plan.Memory.Arena
			failed := int64(0)
			for n := int64(1); ; n++ {
				machine.Set(setting, n)
				second, err := shareWith(t, sized(6), gpu, first)
				machine.Set(setting, 0)
				when := fmt.Sprintf("%s %d", setting, n)
				if err != nil {
					if failed++; !errors.Is(err, drv.ErrOutOfMemory) || n > 100 {
						t.Fatalf("%s: got error %v, want one of too little memory", when, err)
					}
					if got := fmt.Sprint(machine.Live()); got != live {
						t.Errorf("%s: there are %s, want %s as before", when, got, live)
					}
					check(when)
					continue
				}
				if m := second.plan.Memory; m.Parameters+m.Gradients != 0 || m.Arena <= 0 || m.Arena >= 3*arena {
					t.Errorf("three times the batch took in addition %v, want an arena of about %d bytes, and no parameters and gradients", m, 2*arena)
				}
				check("when a larger one shares")
				second.fill(t, nil, 5, 2)
				for range 3 {
					second.step(t)
					check("after a step of the larger one")
				}
				if err := second.Close(); err != nil {
					t.Error(err)
				}
				check("when the larger one is closed")
				break
			}
			if failed < 3 {
				t.Errorf("only %d places failed", failed)
			}
		})
	}
}

// Groups of executors that share, for two batch sizes, take the steps that groups of their own
// take.
func TestGroupsOfExecutorsThatShareTakeTheStepsOfOneTraining(t *testing.T) {
	for _, link := range []cuda.Link{cuda.NCCL, cuda.ThroughHost} {
		t.Run(link.String(), func(t *testing.T) {
			gpus := openAll(t, fake.New(t), 2)
			small, executors := compileAll(t, sized(2), gpus, cuda.Config{})
			sets := [][]*program{small}
			groups := []*cuda.Group{join(t, executors, link)}
			for step, which := range []int{0, 0, 0, 1, 1, 1, 0, 1} {
				if which == len(groups) {
					var large []*program
					var executors []*cuda.Executor
					for i, gpu := range gpus {
						p, err := shareWith(t, sized(5), gpu, small[i])
						if err != nil {
							t.Fatal(err)
						}
						t.Cleanup(func() { p.Close() })
						large, executors = append(large, p), append(executors, p.Executor)
					}
					sets, groups = append(sets, large), append(groups, join(t, executors, link))
				}
				fresh, executors := compileAll(t, sized([]int{2, 5}[which]), gpus, cuda.Config{})
				group := join(t, executors, link)
				for i, p := range fresh {
					for k, m := range small[0].host.Params {
						copy(p.host.Params[k], m)
					}
					p.fill(t, nil, 5, uint64(10*step+i))
					sets[which][i].fill(t, nil, 5, uint64(10*step+i))
				}
				for _, g := range []*cuda.Group{group, groups[which]} {
					if err := g.Run(t.Context(), plan.Hooks{}); err != nil {
						t.Fatal(err)
					}
				}
				for i, p := range fresh {
					if got, want := sets[which][i].number(t), p.number(t); got != want {
						t.Errorf("step %d: loss of member %d is %g, want %g", step, i, got, want)
					}
				}
				for k, v := range fresh[0].plan.Params {
					if !slices.Equal(small[0].host.Grads[k], fresh[0].host.Grads[k]) {
						t.Errorf("step %d: the gradient of %s is another", step, v.Name)
					}
					for i, d := range small[0].host.Grads[k] {
						small[0].host.Params[k][i] -= 0.1 * d
					}
				}
				if err := group.Close(); err != nil {
					t.Error(err)
				}
			}
			for _, g := range groups {
				if err := g.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
