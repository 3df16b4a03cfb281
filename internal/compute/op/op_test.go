package op

import (
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

func TestRegistryTravelsInItsGraphAndMachinesPassItBy(t *testing.T) {
	g := gorgonia.NewGraph()
	x := gorgonia.NewVector(g, tensor.Float64, gorgonia.WithShape(2), gorgonia.WithName("x"), gorgonia.WithValue(tensor.New(tensor.WithBacking([]float64{1, 2}))))
	r := RegistryOf(g)
	if RegistryOf(g) != r {
		t.Fatal("RegistryOf made a second registry")
	}
	y := gorgonia.Must(gorgonia.Sum(gorgonia.Must(Apply(&ReLU{}, x))))
	grads, err := gorgonia.Grad(y, x)
	if err != nil {
		t.Fatal(err)
	}
	m := gorgonia.NewTapeMachine(g)
	defer m.Close()
	if err := m.RunAll(); err != nil {
		t.Fatal(err)
	}
	if got := y.Value().Data().(float64); got != 3 {
		t.Errorf("sum is %v, want 3", got)
	}
	if got := grads[0].Value().Data().([]float64); got[0] != 1 || got[1] != 1 {
		t.Errorf("gradient is %v, want 1 1", got)
	}
	leaves := Leaves(g)
	if len(leaves) != 1 || leaves[0].Node != x || leaves[0].Role != RoleParameter {
		t.Errorf("leaves are %v, want x as a parameter", leaves)
	}
}
