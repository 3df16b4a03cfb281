package cuda_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// h200 is what such a GPU was seen to do in large copies and large products, of which kernels reach
// a part.
func h200(products float64) cuda.Rates {
	return cuda.Rates{Bytes: 0.85 * 4.3e12, Flops: products * 790e12, Launch: 2 * time.Microsecond}
}

// account is the works of a training step of ResNet18 for CIFAR-10, images as bytes, the update on
// the device.
func account(t *testing.T, typ cuda.Compute, batch int) []cuda.Work {
	t.Helper()
	m := classifier("resnet18", batch, []int{3, 32, 32}, func(x *gorgonia.Node) *gorgonia.Node {
		return nn.ResNet18(x, nn.ResNetConfig{Classes: 10, Stem: nn.CIFAR})
	})
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: 7})
	loss := m.build(g)
	params, grads, err := op.Gradients(loss)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Build(plan.Request{Root: loss, Residuals: true, Params: params, Grads: grads, Seed: loss.Deriv()})
	if err != nil {
		t.Fatal(err)
	}
	h := &plan.Host{States: map[string]*plan.State{}}
	for _, memory := range []*[][]float32{&h.Params, &h.Grads} {
		n := 0
		for _, v := range p.Params {
			n += (v.Len() + 15) / 16 * 16
		}
		block := make([]float32, n)
		h.Blocks = append(h.Blocks, block)
		for _, v := range p.Params {
			*memory = append(*memory, block[:v.Len():v.Len()])
			block = block[(v.Len()+15)/16*16:]
		}
	}
	for _, v := range p.Inputs {
		var data any = make([]float32, v.Len())
		if v.Dtype == tensor.Int32 {
			data = make([]int32, v.Len())
		}
		h.Inputs = append(h.Inputs, plan.HostInput{Data: data})
	}
	for _, o := range p.Ops {
		if bn, ok := o.Attr.(*op.BatchNorm2D); ok {
			h.States[bn.State.Name] = &plan.State{Mean: bn.State.Mean.Data().([]float32), Var: bn.State.Var.Data().([]float32)}
		}
	}
	gpu := cuda.DryRun(132)
	momentum := func(s drv.Stream, pieces []cuda.Piece, found drv.Ptr) error {
		for _, p := range pieces {
			if err := gpu.Kernels().Nesterov(s, p.N, p.Params, p.Grads, p.Params, found, found); err != nil {
				return err
			}
		}
		return nil
	}
	e, err := cuda.New(p, h, cuda.Config{GPU: gpu, Type: typ, Update: momentum})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Pixels(0, cuda.PixelsConfig{C: 3, H: 32, W: 32}); err != nil {
		t.Fatal(err)
	}
	works, err := e.Account()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	return works
}

// What a step moves, computes and launches is what is written down: no byte or launch comes back
// unnoticed.
func TestAStepMovesWhatIsWrittenDown(t *testing.T) {
	var out bytes.Buffer
	fmt.Fprint(&out, "A training step of ResNet18 for CIFAR-10 in bfloat16 with its update, on 132 multiprocessors: what it moves and computes at least, and\n",
		"the time that follows from 85 % of 4.3 TB/s, 50 % and 70 % of 790 TFLOP/s, and 2 µs a launch. Predictions; nothing here was measured.\n")
	for _, batch := range []int{128, 256, 512, 1024} {
		fmt.Fprintln(&out)
		cuda.WriteAccount(&out, account(t, cuda.BFloat16, batch), batch, h200(0.5), h200(0.7))
	}
	file := filepath.Join("testdata", "resnet18.account")
	if *update {
		if err := os.WriteFile(file, out.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g, w := strings.Split(out.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Fatalf("%s, line %d: got\n%q, want\n%q; go test -run %s -update writes it anew", file, i+1, strings.Join(g[min(i, len(g)):min(i+1, len(g))], ""), strings.Join(w[min(i, len(w)):min(i+1, len(w))], ""), t.Name())
		}
	}
}

func TestADryRunRunsNothing(t *testing.T) {
	p := compile(t, models[1], cuda.Config{GPU: cuda.DryRun(132)})
	if err := p.Run(t.Context(), false, plan.Hooks{}); err == nil || !strings.Contains(err.Error(), "dry run") {
		t.Errorf("a run on a DryRun: got %v, want an error that says so", err)
	}
	works, err := p.Account()
	if err != nil {
		t.Fatal(err)
	}
	// Three products of rows of 6: forward, and two gradients of each layer but the first,
	// which has one.
	var flops int64
	for _, w := range works {
		flops += w.Flops
	}
	if want := int64(2 * 6 * (2*11*17 + 3*17*8 + 3*8*5)); flops != want {
		t.Errorf("a step of three layers computes %d products and sums, want %d", flops, want)
	}
	_, gpu := cuda.NewFake(1)
	if _, err := compile(t, models[1], cuda.Config{GPU: gpu}).Account(); err == nil {
		t.Error("an account of a GPU that is there gave no error")
	}
}
