package nn_test

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// A model of one layer learns which of two inputs is larger.
func ExampleCompile() {
	g := gorgonia.NewGraph()
	x, labels := nn.Input(g, "x", 4, 2), nn.Labels(g, "labels", 4)
	loss := nn.SoftmaxCrossEntropy(nn.Linear(x, "fc", nn.LinearConfig{Out: 2}), labels)

	prog, err := nn.Compile(loss, nn.Config{Device: "cpu:0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer prog.Close()

	in, _ := prog.Input("x")
	copy(in, []float32{1, 0, 0, 1, 3, 2, 2, 3})
	classes, _ := prog.Labels("labels")
	classes.Set([]int32{0, 1, 0, 1})
	for range 100 {
		if err := prog.Step(context.Background(), nil); err != nil {
			fmt.Println(err)
			return
		}
		for _, p := range prog.Params() {
			for i, g := range p.Gradient {
				p.Value[i] -= g
			}
		}
	}
	fmt.Println("learned:", prog.Loss() < 0.1)
	// Output: learned: true
}
