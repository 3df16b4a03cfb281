package nn_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// After ready(i) the value of parameter i may be overwritten: the rest of the step must not read
// it.
func TestStepDoesNotReadAParameterAfterItIsReady(t *testing.T) {
	g := gorgonia.NewGraph()
	images, labels := nn.Input(g, "images", 2, 3, 32, 32), nn.Labels(g, "labels", 2)
	loss := nn.SoftmaxCrossEntropy(nn.ResNet18(images, nn.ResNetConfig{Classes: 10, Width: 4, Stem: nn.CIFAR}), labels)
	program, err := nn.Compile(loss, nn.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	in, err := program.Input("images")
	if err != nil {
		t.Fatal(err)
	}
	for i := range in {
		in[i] = float32(math.Sin(float64(i)))
	}
	names, err := program.Labels("labels")
	if err != nil {
		t.Fatal(err)
	}
	names.Set([]int32{3, 7})

	params := program.Params()
	var want [][]float32
	if err := program.Step(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	for _, p := range params {
		want = append(want, slices.Clone(p.Gradient))
	}
	poison := float32(math.NaN())
	err = program.Step(context.Background(), func(i int) {
		for k := range params[i].Value {
			params[i].Value[k] = poison
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range params {
		if !slices.Equal(p.Gradient, want[i]) {
			t.Errorf("gradient of %s changed when values were overwritten after ready: got %v..., want %v...", p.Name, p.Gradient[0], want[i][0])
		}
	}
}
