package nn_test

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// Programs of one model for two batch sizes train the same parameters.
func ExampleConfig_share() {
	build := func(batch int, first *nn.Program) (*nn.Program, error) {
		g := gorgonia.NewGraph()
		x, labels := nn.Input(g, "x", batch, 2), nn.Labels(g, "labels", batch)
		loss := nn.SoftmaxCrossEntropy(nn.Linear(x, "fc", nn.LinearConfig{Out: 2}), labels)
		return nn.Compile(loss, nn.Config{Share: first})
	}
	step := func(p *nn.Program, x []float32, classes []int32) error {
		in, err := p.Input("x")
		if err != nil {
			return err
		}
		copy(in, x)
		labels, err := p.Labels("labels")
		if err != nil {
			return err
		}
		labels.Set(classes)
		if err := p.SetExamples(len(classes)); err != nil {
			return err
		}
		if err := p.Step(context.Background(), nil); err != nil {
			return err
		}
		for _, q := range p.Params() {
			for i, d := range q.Gradient {
				q.Value[i] -= d
			}
		}
		return nil
	}

	large, err := build(4, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer large.Close()
	small, err := build(2, large)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer small.Close()
	for range 100 {
		if err := step(small, []float32{1, 0, 0, 1}, []int32{0, 1}); err != nil {
			fmt.Println(err)
			return
		}
		if err := step(large, []float32{3, 2, 2, 3, 0, 2}, []int32{0, 1, 1}); err != nil { // 3 of 4 examples
			fmt.Println(err)
			return
		}
	}
	fmt.Println("learned:", small.Loss() < 0.1 && large.Loss() < 0.1)
	m := small.Memory()
	fmt.Printf("the smaller program takes %d bytes for parameters, gradients and what lies between operations\n", m.Parameters+m.Gradients+m.Arena)
	// Output:
	// learned: true
	// the smaller program takes 0 bytes for parameters, gradients and what lies between operations
}
