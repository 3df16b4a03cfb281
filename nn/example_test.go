package nn_test

import (
	"fmt"

	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/nn/op"
	"gorgonia.org/gorgonia"
)

func Example() {
	g := gorgonia.NewGraph()
	images, labels := nn.Input(g, "images", 64, 1, 28, 28), nn.Labels(g, "labels", 64)
	logits := nn.LeNet(images, nn.LeNetConfig{Classes: 10})
	loss := nn.SoftmaxCrossEntropy(logits, labels)
	fmt.Println(logits.Shape(), loss.Shape(), nn.ParameterCount(g))
	for _, p := range nn.Parameters(g)[:2] {
		fmt.Println(p.Name(), p.Shape())
	}
	// Output:
	// (64, 10) () 61706
	// conv1.weight (6, 1, 5, 5)
	// conv1.bias (6)
}

// A network of one's own, with a function of gorgonia's in the middle.
func Example_mixed() {
	g := gorgonia.NewGraph()
	x, target := nn.Input(g, "x", 8, 4), nn.Input(g, "target", 8, 1)
	hidden := gorgonia.Must(gorgonia.Tanh(nn.Linear(x, "in", nn.LinearConfig{Out: 16})))
	loss := nn.MSE(nn.Linear(hidden, "out", nn.LinearConfig{Out: 1}), target)
	params, grads, err := op.Gradients(loss)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range params {
		fmt.Println(params[i].Name(), grads[i].Shape())
	}
	// Output:
	// in.weight (16, 4)
	// in.bias (16)
	// out.weight (1, 16)
	// out.bias (1)
}
