package nn_test

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/nn"
	G "gorgonia.org/gorgonia"
)

// A loss of gorgonia's own ops is averaged over the examples that are there.
func ExampleExampleWeights() {
	const batch = 4
	g := G.NewGraph()
	x, target := nn.Input(g, "x", batch, 1), nn.Input(g, "target", batch, 1)
	y := nn.Linear(x, "fc", nn.LinearConfig{Out: 1, NoBias: true})
	losses := G.Must(G.Sum(G.Must(G.Abs(G.Must(G.Sub(y, target)))), 1)) // one for each example
	weights := nn.ExampleWeights(g, batch)
	loss := G.Must(G.HadamardDiv(G.Must(G.Sum(G.Must(G.HadamardProd(losses, weights)))), G.Must(G.Sum(weights))))
	program, err := nn.Compile(loss, nn.Config{Threads: 1})
	if err != nil {
		panic(err)
	}
	defer program.Close()
	program.Params()[0].Value[0] = 2
	in, _ := program.Input("x")
	copy(in, []float32{1, 2, 3, 99})
	out, _ := program.Input("target")
	copy(out, []float32{1, 1, 1, -50})
	if err := program.SetExamples(3); err != nil { // the last row is padding
		panic(err)
	}
	if err := program.Step(context.Background(), nil); err != nil {
		panic(err)
	}
	fmt.Println(program.Loss(), program.Params()[0].Gradient[0])
	// Output: 3 2
}
