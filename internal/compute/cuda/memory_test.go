package cuda_test

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// A program that a GPU has too little memory for is an error that says what it needs, what there
// is, and a batch that fits.
func TestAProgramThatIsTooLargeSaysWhichBatchFits(t *testing.T) {
	machine := fake.New(t)
	machine.Set("memory", 6<<20)
	gpu := open(t, machine)
	live := machine.Live()
	compile := func(batch int) (*cuda.Executor, error) {
		m := classifier("net", batch, []int{3, 16, 16}, func(x *gorgonia.Node) *gorgonia.Node {
			return nn.ResNet18(x, nn.ResNetConfig{Classes: 5, Stem: nn.CIFAR, Width: 8})
		})
		p, _ := build(t, m, false, nil)
		return cuda.New(p, newHost(p), cuda.Config{GPU: gpu})
	}
	_, err := compile(200)
	if !errors.Is(err, drv.ErrOutOfMemory) {
		t.Fatalf("200 images in 6 MB: got error %v, want one of too little memory", err)
	}
	said := regexp.MustCompile(`bytes for .*; the program needs about (\d+) MB on cuda:0 .*, and ([456]) MB were free: a batch of (\d+) in place of 200 may fit`).FindStringSubmatch(err.Error())
	if said == nil {
		t.Fatalf("200 images in 6 MB: got error %v, want what is needed, what is free and a batch", err)
	}
	if got := machine.Live(); fmt.Sprint(got) != fmt.Sprint(live) {
		t.Errorf("there are %v, want %v as before", got, live)
	}
	needs, _ := strconv.Atoi(said[1])
	batch, _ := strconv.Atoi(said[3])
	if needs < 10 || needs > 100 {
		t.Errorf("200 images are said to need %d MB", needs)
	}
	e, err := compile(batch * 95 / 100)
	if err != nil {
		t.Fatalf("19 of 20 of the batch that is said to fit: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if e, err = compile(2 * batch); err == nil {
		e.Close()
		t.Errorf("twice the batch of %d that is said to fit does", batch)
	}
}

// Programs that come and go, also such as share parameters and whose graphs were captured, leave
// nothing behind.
func TestCompilingAndClosingAgainAndAgainLeavesNothing(t *testing.T) {
	machine := fake.New(t)
	gpu := open(t, machine)
	m := joinable[0]
	var first string
	for n := range 25 {
		p, _ := build(t, m, false, nil)
		host := newHost(p)
		train, err := cuda.New(p, host, cuda.Config{GPU: gpu, Type: []cuda.Compute{cuda.BFloat16, cuda.Float16, cuda.Float32}[n%3], Bucket: 512})
		if err != nil {
			t.Fatal(err)
		}
		q, _ := build(t, m, true, nil)
		shared := newHost(q)
		shared.Params, shared.States, shared.Blocks = host.Params, host.States, host.Blocks
		eval, err := cuda.New(q, shared, cuda.Config{GPU: gpu, Share: train})
		if err != nil {
			t.Fatal(err)
		}
		for range n % 4 {
			if err := errors.Join(train.Run(t.Context(), false, plan.Hooks{}), eval.Run(t.Context(), true, plan.Hooks{})); err != nil {
				t.Fatal(err)
			}
		}
		order := []*cuda.Executor{train, eval}
		if n%2 == 1 {
			order[0], order[1] = eval, train
		}
		for _, e := range order {
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if now := fmt.Sprint(machine.Live()); first == "" {
			first = now
		} else if now != first {
			t.Fatalf("after %d programs there are %s, want %s as after the first", n+1, now, first)
		}
	}
}
