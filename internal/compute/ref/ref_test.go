package ref_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/ref"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// regression is mean((x·wᵀ − t)²) with x and t as inputs.
func regression(dt tensor.Dtype) *gorgonia.Node {
	g := gorgonia.NewGraph()
	x := gorgonia.NewMatrix(g, dt, gorgonia.WithShape(2, 2), gorgonia.WithName("x"))
	t := gorgonia.NewMatrix(g, dt, gorgonia.WithShape(2, 1), gorgonia.WithName("t"))
	w := gorgonia.NewMatrix(g, dt, gorgonia.WithShape(1, 2), gorgonia.WithName("w"), gorgonia.WithInit(gorgonia.Zeroes()))
	y, err := op.Apply(&op.Linear{}, x, w)
	if err != nil {
		panic(err)
	}
	loss, err := op.Apply(&op.MSE{Dims: 2}, y, t)
	if err != nil {
		panic(err)
	}
	return loss
}

func TestRunnerRepeatsAndFollowsItsParameters(t *testing.T) {
	for _, dt := range []tensor.Dtype{tensor.Float32, tensor.Float64} {
		r, err := ref.New(regression(dt))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if err := r.Step(); err == nil || !strings.Contains(err.Error(), "ref: run") {
			t.Errorf("%v: step without inputs: error %v, want one of ref: run", dt, err)
		}
		for name, values := range map[string][]float64{"x": {1, 0, 0, 1}, "t": {1, 2}} {
			if err := r.Set(name, values); err != nil {
				t.Fatal(err)
			}
		}
		for step := range 200 {
			if err := r.Step(); err != nil {
				t.Fatal(err)
			}
			if step == 0 && r.Loss() != 2.5 {
				t.Errorf("%v: first loss is %g, want 2.5", dt, r.Loss())
			}
			w := r.Param("w")
			for i, d := range r.Grad("w") {
				w[i] -= 0.3 * d
			}
			if err := r.Set("w", w); err != nil {
				t.Fatal(err)
			}
		}
		if w := r.Param("w"); math.Abs(w[0]-1) > 1e-5 || math.Abs(w[1]-2) > 1e-5 {
			t.Errorf("%v: descent ends at %v, want 1 and 2", dt, w)
		}
	}
}

func TestWrongNamesAndSizesAreNamed(t *testing.T) {
	r, err := ref.New(regression(tensor.Float64))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Set("y", nil); err == nil || !strings.Contains(err.Error(), `ref: set "y": the graph has no such leaf`) {
		t.Errorf("unknown leaf: error %v", err)
	}
	if err := r.Set("x", make([]float64, 3)); err == nil || !strings.Contains(err.Error(), "got 3 values, want 4 for (2, 2)") {
		t.Errorf("wrong size: error %v", err)
	}
}

// wrongReLU has a gradient that is off by a factor.
type wrongReLU struct{ op.ReLU }

func (o *wrongReLU) SymDiff(_ gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	n, err := gorgonia.Add(grad, grad)
	return gorgonia.Nodes{n}, err
}

func TestCheckGradientsFindsAWrongGradient(t *testing.T) {
	g := gorgonia.NewGraph()
	x := gorgonia.NewVector(g, tensor.Float64, gorgonia.WithName("x"), gorgonia.WithShape(2), gorgonia.WithValue(tensor.New(tensor.WithBacking([]float64{3, 4}))))
	y, err := op.Apply(&wrongReLU{}, x)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ref.New(gorgonia.Must(gorgonia.Sum(y)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.CheckGradients(2, 1e-5, 1e-3); err == nil || !strings.Contains(err.Error(), `gradient of "x" at 0: got 2`) {
		t.Errorf("gradient that is twice what it should be: error %v", err)
	}
}

func ExampleRunner() {
	r, err := ref.New(regression(tensor.Float64))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	for name, values := range map[string][]float64{"x": {1, 2, 3, 4}, "t": {1, 1}} {
		if err := r.Set(name, values); err != nil {
			fmt.Println(err)
		}
	}
	if err := r.Step(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(r.Loss(), r.Grad("w"))
	// Output: 1 [-4 -6]
}
