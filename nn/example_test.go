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

// Gradients become final one after the other during the backward pass, those of the last layers
// first. That is when they are pushed.
func ExampleProgram_Step() {
	g := gorgonia.NewGraph()
	x, labels := nn.Input(g, "x", 4, 8), nn.Labels(g, "labels", 4)
	logits := nn.MLP(x, nn.MLPConfig{Hidden: []int{16}, Classes: 2})
	prog, err := nn.Compile(nn.SoftmaxCrossEntropy(logits, labels), nn.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer prog.Close()
	params := prog.Params()
	for _, p := range params {
		fmt.Println(p.Name, p.Shape)
	}
	var final []string
	err = prog.Step(context.Background(), func(i int) { final = append(final, params[i].Name) })
	fmt.Println(final, err)
	// Output:
	// fc1.weight [16 8]
	// fc1.bias [16]
	// fc2.weight [2 16]
	// fc2.bias [2]
	// [fc2.weight fc2.bias fc1.weight fc1.bias] <nil>
}

// The shape of a layer's result follows from its input's. Parameters are made beside it, with names
// that PyTorch has, too.
func ExampleConv2D() {
	g := gorgonia.NewGraph()
	images := nn.Input(g, "images", 32, 3, 32, 32) // examples, channels, height, width
	x := nn.Conv2D(images, "conv", nn.Conv2DConfig{Filters: 16, Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, Pad: [2]int{1, 1}})
	x = nn.ReLU(nn.BatchNorm2D(x, "norm", nn.BatchNormConfig{}))
	fmt.Println(x.Shape())
	fmt.Println(nn.Flatten(x).Shape())
	// Output:
	// (32, 16, 16, 16)
	// (32, 4096)
}

// An example that is mixed of two classes has the probabilities of both as its target.
func ExampleSoftCrossEntropy() {
	g := gorgonia.NewGraph()
	x, targets := nn.Input(g, "x", 2, 3), nn.Input(g, "targets", 2, 2)
	loss := nn.SoftCrossEntropy(nn.Linear(x, "fc", nn.LinearConfig{Out: 2}), targets)
	program, err := nn.Compile(loss, nn.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer program.Close()
	for i := range program.Params()[0].Value {
		program.Params()[0].Value[i] = 0 // all classes are alike
	}
	in, err := program.Input("targets")
	if err != nil {
		fmt.Println(err)
		return
	}
	copy(in, []float32{0.75, 0.25, -1, -1}) // the second example is left out
	if err := program.Step(context.Background(), nil); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("loss %.4f of %v example\n", program.Loss(), program.LossWeight())
	// Output: loss 0.6931 of 1 example
}
