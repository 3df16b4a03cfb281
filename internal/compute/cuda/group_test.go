package cuda_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// openAll opens the first n GPUs of a machine.
func openAll(t *testing.T, m *fake.Machine, n int, hidden ...dl.Name) []*cuda.GPU {
	t.Helper()
	search := *m.Search()
	search.Paths = make(dl.Paths)
	for name, path := range m.Paths() {
		if !slices.Contains(hidden, name) {
			search.Paths[name] = path
		}
	}
	var gpus []*cuda.GPU
	for i := range n {
		g, err := cuda.Open(i, cuda.Options{Search: search, Choices: "none", Repeat: -1})
		gputest.Must(t, err)
		t.Cleanup(func() { closed(t, g) })
		gpus = append(gpus, g)
	}
	return gpus
}

// joinable are a small model with convolutions, a residual and normalisations, and one of odd
// numbers of parameters.
var joinable = []model{
	classifier("normalised", 2, []int{3, 4, 4}, func(x *gorgonia.Node) *gorgonia.Node {
		x = nn.ReLU(nn.BatchNorm2D(conv(x, "conv0", 8, 3, 1, 1), "bn0", nn.BatchNormConfig{}))
		x = nn.ReLU(nn.Add(nn.BatchNorm2D(conv(x, "conv1", 8, 3, 1, 1), "bn1", nn.BatchNormConfig{}), x))
		return nn.Linear(nn.GlobalAvgPool2D(x), "fc", nn.LinearConfig{Out: 5})
	}),
	classifier("odd", 3, []int{7}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.MLP(x, nn.MLPConfig{Hidden: []int{9, 3}, Classes: 5})
	}),
}

func compileAll(t *testing.T, m model, gpus []*cuda.GPU, cfg cuda.Config) (programs []*program, executors []*cuda.Executor) {
	for i, gpu := range gpus {
		cfg.GPU, cfg.Stream = gpu, uint64(i)
		p := compile(t, m, cfg)
		programs, executors = append(programs, p), append(executors, p.Executor)
	}
	return programs, executors
}

func join(t *testing.T, members []*cuda.Executor, link cuda.Link) *cuda.Group {
	t.Helper()
	g, err := cuda.NewGroup(members, link)
	if gputest.On() && (errors.Is(err, dl.ErrNoLibrary) || link == cuda.PeerCopies && err != nil && !errors.Is(err, drv.ErrLost)) {
		t.Skipf("not on this machine: %v", err)
	}
	gputest.Must(t, err)
	t.Cleanup(func() { closed(t, g) })
	return g
}

// A step of a group gives the sum of the gradients that its members give alone, once for each
// parameter and when it is final, and takes values from the first member's memory alone, each when
// its wait has returned.
func TestAStepOfAGroupIsTheSumOfItsMembersSteps(t *testing.T) {
	for _, link := range []cuda.Link{cuda.NCCL, cuda.PeerCopies, cuda.ThroughHost} {
		for _, ranks := range []int{2, 3} {
			seeds := int64(2) // one of each model
			if slow() {
				seeds = 4
			}
			for seed := range seeds {
				t.Run(fmt.Sprintf("%v/%d/%d", link, ranks, seed), func(t *testing.T) {
					machine := fake.New(t)
					machine.Set("devices", int64(ranks))
					machine.Set("seed", seed)
					isTheSum(t, joinable[seed%2], openAll(t, machine, ranks), cuda.Config{Type: cuda.Float32, Bucket: 512}, link)
				})
			}
		}
	}
}

// isTheSum holds steps of a group against the sum of its members' own.
func isTheSum(t *testing.T, m model, gpus []*cuda.GPU, cfg cuda.Config, link cuda.Link) {
	alone, _ := compileAll(t, m, gpus, cfg)
	joined, executors := compileAll(t, m, gpus, cfg)
	g := join(t, executors, link)
	if !strings.Contains(g.String(), link.String()) {
		t.Errorf("the group is %q, want one by %v", g, link)
	}
	values := clones(joined[0].host.Params)
	for step := range 3 {
		for i := range alone {
			alone[i].fill(t, nil, m.classes, uint64(10*step+i))
			joined[i].fill(t, nil, m.classes, uint64(10*step+i))
			alone[i].SetGradScale(float32(i + 1))
			joined[i].SetGradScale(float32(i + 1))
			alone[i].step(t)

			// Nothing is read before its wait, and of the others nothing at all.
			for _, w := range joined[i].host.Params {
				for k := range w {
					w[k] = float32(math.NaN())
				}
			}
		}
		waits, ready := make([]int, len(values)), make([]int, len(values))
		got := make([][]float32, len(values))
		err := g.Run(t.Context(), plan.Hooks{
			Wait: func(n int) { waits[n]++; copy(joined[0].host.Params[n], values[n]) },
			Ready: func(n int) {
				ready[n]++
				got[n] = slices.Clone(joined[0].host.Grads[n])
				for k := range got[n] {
					joined[0].host.Params[n][k], joined[0].host.Grads[n][k] = float32(math.NaN()), float32(math.NaN())
				}
			},
		})
		gputest.Must(t, err)
		worst, of := 0.0, ""
		for n, v := range joined[0].plan.Params {
			if waits[n] != 1 || ready[n] != 1 {
				t.Errorf("%s was waited for %d times and ready %d times, want once each", v.Name, waits[n], ready[n])
				continue
			}
			for k := range got[n] {
				var want, size float64
				for _, p := range alone {
					want += float64(p.host.Grads[n][k])
					size += math.Abs(float64(p.host.Grads[n][k]))
				}
				if d := math.Abs(float64(got[n][k])-want) / (1e-6*size + 1e-7); gputest.Worse(d, worst) {
					worst, of = d, fmt.Sprintf("%v, step %d: most in %s", g, step, v.Name)
				}
			}
		}
		gputest.Within(t, gputest.Gradient, worst, 1, "of rounding", of)
		for i, p := range joined {
			if got, want := p.number(t), alone[i].number(t); got != want {
				t.Errorf("step %d: loss of member %d is %g, want %g", step, i, got, want)
			}
			for name, s := range p.host.States {
				if !slices.Equal(s.Mean, alone[i].host.States[name].Mean) {
					t.Errorf("step %d: running mean %s of member %d is %v, want %v", step, name, i, s.Mean, alone[i].host.States[name].Mean)
				}
			}
		}
	}
}

// What a group computes does not depend on when streams work, and the next run gives the same bits.
func TestAGroupGivesTheSameBitsInEveryOrderOfWork(t *testing.T) {
	for _, link := range []cuda.Link{cuda.NCCL, cuda.PeerCopies, cuda.ThroughHost} {
		var want [][]float32
		for seed := range int64(6) {
			t.Run(fmt.Sprintf("%v/%d", link, seed), func(t *testing.T) {
				machine := fake.New(t)
				machine.Set("seed", seed)
				machine.Set("poison", 255)
				programs, executors := compileAll(t, joinable[0], openAll(t, machine, 2), cuda.Config{Bucket: 1024, Eager: seed == 4})
				g := join(t, executors, link)
				for step := range 3 {
					for i, p := range programs {
						p.fill(t, nil, 5, uint64(10*step+i))
					}
					if err := g.Run(t.Context(), plan.Hooks{}); err != nil {
						t.Fatal(err)
					}
				}
				if want == nil {
					want = clones(programs[0].host.Grads)
				}
				for n, v := range programs[0].plan.Params {
					if !slices.Equal(programs[0].host.Grads[n], want[n]) {
						t.Errorf("the gradient of %s is another", v.Name)
					}
				}
			})
		}
	}
}

// Without batch normalisation a group is one program with the members' batches as one.
func TestAGroupIsOneProgramWithTheWholeBatch(t *testing.T) {
	machine := fake.New(t)
	machine.Set("seed", 3)
	isOneProgram(t, openAll(t, machine, 2), cuda.AutoLink, 1e-6)
}

// isOneProgram holds steps of two GPUs with half of a batch each against those of one with the
// whole batch.
func isOneProgram(t *testing.T, gpus []*cuda.GPU, link cuda.Link, loss float64) {
	net := func(batch int) model {
		return classifier("net", batch, []int{3, 5, 4}, func(x *gorgonia.Node) *gorgonia.Node {
			return end(nn.ReLU(nn.Conv2D(x, "conv1", nn.Conv2DConfig{Filters: 6, Kernel: nn.Square(3), Bias: true})))
		})
	}
	const batch = 3
	whole := compile(t, net(2*batch), cuda.Config{GPU: gpus[0], Type: cuda.Float32})
	halves, executors := compileAll(t, net(batch), gpus, cuda.Config{Type: cuda.Float32, Bucket: 256})
	g := join(t, executors, link)
	whole.SetGradScale(2 * batch)
	for step := range 4 {
		whole.fill(t, nil, 5, uint64(step))
		x, labels := whole.host.Inputs[0].Data.([]float32), whole.host.Inputs[1].Data.([]int32)
		for i, p := range halves {
			p.SetGradScale(batch)
			own := p.host.Inputs[0].Data.([]float32)
			copy(own, x[i*len(own):])
			copy(p.host.Inputs[1].Data.([]int32), labels[i*batch:])
		}
		whole.step(t)
		gputest.Must(t, g.Run(t.Context(), plan.Hooks{}))
		got, want := (halves[0].number(t)+halves[1].number(t))/2, whole.number(t)
		gputest.Within(t, ": loss", math.Abs(got-want), loss, relative, fmt.Sprintf("step %d: the mean is %g, want %g", step, got, want))
		worst, of := 0.0, ""
		for n, v := range whole.plan.Params {
			for k, want := range whole.host.Grads[n] {
				if d := math.Abs(float64(halves[0].host.Grads[n][k]-want)) / (1 + math.Abs(float64(want))); gputest.Worse(d, worst) {
					worst, of = d, fmt.Sprintf("%v, step %d: most in %s", g, step, v.Name)
				}
				halves[0].host.Params[n][k] -= 0.01 * want
				whole.host.Params[n][k] = halves[0].host.Params[n][k]
			}
		}
		gputest.Within(t, gputest.Gradient, worst, 1e-5, relative, of)
	}
}

func TestAGroupSaysWhatJoinsIt(t *testing.T) {
	machine := fake.New(t)
	search := func(hidden ...dl.Name) []*cuda.Executor {
		_, executors := compileAll(t, joinable[1], openAll(t, machine, 2, hidden...), cuda.Config{})
		return executors
	}
	if g := join(t, search(), cuda.AutoLink); !strings.HasPrefix(g.String(), "2 GPUs by NCCL 2.28.9") {
		t.Errorf("the group is %q, want NCCL with its version", g)
	}
	if g := join(t, search(dl.NCCL), cuda.AutoLink); !strings.HasPrefix(g.String(), "2 GPUs by peer copies, since: ") || !strings.Contains(g.String(), "nccl") {
		t.Errorf("without NCCL the group is %q, want peer copies and why", g)
	}
	if _, err := cuda.NewGroup(search(dl.NCCL), cuda.NCCL); !errors.Is(err, drv.ErrNoLibrary) {
		t.Errorf("NCCL where there is none: got error %v, want ErrNoLibrary", err)
	}
	machine.Set("peer", 0)
	if g := join(t, search(dl.NCCL), cuda.AutoLink); !strings.HasPrefix(g.String(), "2 GPUs by the host's memory, since: ") || !strings.Contains(g.String(), "cuda:0 cannot access the memory of cuda:1") {
		t.Errorf("without NCCL and access the group is %q, want the host's memory and why", g)
	}
	if _, err := cuda.NewGroup(search(), cuda.PeerCopies); err == nil || !strings.Contains(err.Error(), "cannot access") {
		t.Errorf("peer copies without access: got error %v", err)
	}
}

func TestExecutorsThatDoNotBelongTogetherAreNotJoined(t *testing.T) {
	machine := fake.New(t)
	gpus := openAll(t, machine, 2)
	make := func(m model, gpu int, cfg cuda.Config) *cuda.Executor {
		cfg.GPU = gpus[gpu]
		return compile(t, m, cfg).Executor
	}
	other := classifier("other", 3, []int{7}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.MLP(x, nn.MLPConfig{Hidden: []int{9, 4}, Classes: 5})
	})
	a := make(joinable[1], 0, cuda.Config{})
	for _, c := range []struct {
		what    string
		members []*cuda.Executor
		says    string
	}{
		{"none", nil, "no executors"},
		{"one GPU twice", []*cuda.Executor{a, make(joinable[1], 0, cuda.Config{})}, "named twice"},
		{"another model", []*cuda.Executor{a, make(joinable[0], 1, cuda.Config{})}, "differ: 6 and 8 parameters"},
		{"another size", []*cuda.Executor{a, make(other, 1, cuda.Config{})}, "of 36"},
		{"another type", []*cuda.Executor{a, make(joinable[1], 1, cuda.Config{Type: cuda.Float32})}, "want one type"},
		{"another cut", []*cuda.Executor{a, make(joinable[1], 1, cuda.Config{Bucket: 64})}, "parts"},
	} {
		_, err := cuda.NewGroup(c.members, cuda.AutoLink)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got error %v, want one with %q", c.what, err, c.says)
		}
	}
}

func TestAGroupStopsWhenItsContextEnds(t *testing.T) {
	machine := fake.New(t)
	machine.Set("seed", 5)
	programs, executors := compileAll(t, joinable[0], openAll(t, machine, 2), cuda.Config{Bucket: 512})
	g := join(t, executors, cuda.AutoLink)
	for i, p := range programs {
		p.fill(t, nil, 5, uint64(i))
	}
	step := func() [][]float32 {
		for _, p := range programs {
			p.SetStep(0)
			for _, s := range p.host.States {
				clear(s.Mean)
			}
		}
		if err := g.Run(t.Context(), plan.Hooks{}); err != nil {
			t.Fatal(err)
		}
		return clones(programs[0].host.Grads)
	}
	want := step()
	for _, hook := range []string{"wait", "ready"} {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		stop := func(int) { calls++; cancel() }
		hooks := plan.Hooks{Wait: stop}
		if hook == "ready" {
			hooks = plan.Hooks{Ready: stop}
		}
		if err := g.Run(ctx, hooks); !errors.Is(err, context.Canceled) || calls == len(want) {
			t.Errorf("%s: got error %v after %d calls, want context canceled before all %d", hook, err, calls, len(want))
		}
	}
	for n, w := range step() {
		if !slices.Equal(w, want[n]) {
			t.Errorf("the gradient of %s after it is another", programs[0].plan.Params[n].Name)
		}
	}
}

// One member that overflows makes the step of all count for nothing.
func TestAStepOfAGroupThatOverflowsCountsForNothing(t *testing.T) {
	machine := fake.New(t)
	programs, executors := compileAll(t, joinable[1], openAll(t, machine, 2), cuda.Config{Type: cuda.Float16, Bucket: 128})
	g := join(t, executors, cuda.AutoLink)
	for i, p := range programs {
		p.fill(t, nil, 5, uint64(i))
	}
	run := func(finite bool, scale float32) {
		t.Helper()
		ready := 0
		err := g.Run(t.Context(), plan.Hooks{Ready: func(n int) {
			ready++
			for _, x := range programs[0].host.Grads[n] {
				if !finite && x != 0 || x-x != 0 {
					t.Fatalf("gradient of %s has %g", programs[0].plan.Params[n].Name, x)
				}
			}
		}})
		if err != nil || ready != len(programs[0].plan.Params) {
			t.Fatalf("got error %v and %d gradients, want %d", err, ready, len(programs[0].plan.Params))
		}
		for i, p := range programs {
			if p.Finite() != finite || p.LossScale() != scale {
				t.Errorf("member %d: finite is %t and the loss's scale %g, want %t and %g", i, p.Finite(), p.LossScale(), finite, scale)
			}
		}
	}
	run(true, 1<<16)
	x := programs[1].host.Inputs[0].Data.([]float32)
	keep := slices.Clone(x)
	for i := range x {
		x[i] = 60000
	}
	run(false, 1<<15)
	copy(x, keep)
	run(true, 1<<15)
}

func TestAFaultInAGroupIsAnError(t *testing.T) {
	for _, link := range []cuda.Link{cuda.NCCL, cuda.PeerCopies, cuda.ThroughHost} {
		for _, c := range []struct {
			setting string
			at      int64
		}{{"launch_fails_at", 1}, {"launch_fails_at", 4}, {"illegal_at", 2}, {"lost_at", 1}, {"lost_at", 25}, {"lost_at", 80}, {"nccl_async_error", 1}} {
			if c.setting == "nccl_async_error" && link != cuda.NCCL {
				continue
			}

			// before is in steps: launch by launch, or as graphs.
			for _, before := range []int{0, 2} {
				t.Run(fmt.Sprintf("%v/%s %d after %d", link, c.setting, c.at, before), func(t *testing.T) {
					machine := fake.New(t)
					machine.Set("seed", 1)
					var gpus []*cuda.GPU
					var executors []*cuda.Executor
					for i := range 2 {
						gpu, err := cuda.Open(i, cuda.Options{Search: *machine.Search(), Choices: "none", Repeat: -1})
						if err != nil {
							t.Fatal(err)
						}
						p, _ := build(t, joinable[1], false, nil)
						e, err := cuda.New(p, newHost(p), cuda.Config{GPU: gpu, Bucket: 128, Timeout: 10 * time.Second})
						if err != nil {
							t.Fatal(err)
						}
						gpus, executors = append(gpus, gpu), append(executors, e)
					}
					g, err := cuda.NewGroup(executors, link)
					if err != nil {
						t.Fatal(err)
					}
					for range before {
						if err := g.Run(t.Context(), plan.Hooks{}); err != nil {
							t.Fatal(err)
						}
					}
					machine.Set(c.setting, c.at)
					if err := g.Run(t.Context(), plan.Hooks{}); err == nil || !strings.Contains(err.Error(), "2 GPUs by "+link.String()) {
						t.Errorf("got error %v, want one that names the group", err)
					}
					machine.Set(c.setting, 0)
					if err := g.Run(t.Context(), plan.Hooks{}); err == nil || !strings.Contains(err.Error(), "has made") {
						t.Errorf("a step after it: got error %v, want one that says that it was lost", err)
					}

					// The driver refuses what is asked, but nothing hangs.
					g.Close()
					for i := range gpus {
						executors[i].Close()
						gpus[i].Close()
					}
					machine.Complaints()
				})
			}
		}
	}
}

// Joining that fails for want of memory leaves nothing behind, and the executors as they were.
func TestJoiningSaysWhatThereIsNoMemoryFor(t *testing.T) {
	for _, c := range []struct {
		setting string
		link    cuda.Link
	}{{"oom_at", cuda.PeerCopies}, {"host_oom_at", cuda.ThroughHost}} {
		t.Run(c.setting, func(t *testing.T) {
			machine := fake.New(t)
			programs, executors := compileAll(t, joinable[1], openAll(t, machine, 2), cuda.Config{})
			live := machine.Live()
			for n := int64(1); n <= 2; n++ {
				machine.Set(c.setting, n)
				_, err := cuda.NewGroup(executors, c.link)
				machine.Set(c.setting, 0)
				if !errors.Is(err, drv.ErrOutOfMemory) || !strings.Contains(err.Error(), "bytes for ") {
					t.Errorf("%s %d: got error %v, want one that says how many bytes for what", c.setting, n, err)
				}
				if got := machine.Live(); fmt.Sprint(got) != fmt.Sprint(live) {
					t.Errorf("%s %d: there are %v, want %v as before", c.setting, n, got, live)
				}
			}
			for _, p := range programs {
				p.step(t)
			}
		})
	}
}
