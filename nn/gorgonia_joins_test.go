package nn_test

import (
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// gorgonia takes a new node for one that is there if their hashes are equal, and leaves attributes
// out of some. The second call of each pair gives the node of the first: nothing in the graph shows
// it, so Compile cannot. docs/design/0026 tells users; if this fails after an update of gorgonia,
// it has to be changed.
func TestGorgoniaTakesTheseForOne(t *testing.T) {
	pool := func(pad ...int) func(x *G.Node) (*G.Node, error) {
		return func(x *G.Node) (*G.Node, error) { return G.MaxPool2D(x, tensor.Shape{3, 3}, pad, []int{3, 3}) }
	}
	dropout := func(rate float64) func(x *G.Node) (*G.Node, error) {
		return func(x *G.Node) (*G.Node, error) { return G.Dropout(x, rate) }
	}
	for _, c := range []struct {
		name string
		a, b func(x *G.Node) (*G.Node, error)
	}{
		{"SoftMax and LogSoftMax", func(x *G.Node) (*G.Node, error) { return G.SoftMax(x) }, func(x *G.Node) (*G.Node, error) { return G.LogSoftMax(x) }},
		{"Dropout with other probabilities", dropout(0.2), dropout(0.7)},
		{"MaxPool2D with other pads at the bottom", pool(0, 0), pool(0, 1, 0, 0)},
		{"Sparsemax along other axes", func(x *G.Node) (*G.Node, error) { return G.Sparsemax(x) }, func(x *G.Node) (*G.Node, error) { return G.Sparsemax(x, 0) }},
	} {
		g := G.NewGraph()
		x := G.NewTensor(g, tensor.Float32, 4, G.WithShape(2, 2, 6, 6), G.WithName("x"))
		if a, b := G.Must(c.a(x)), G.Must(c.b(x)); a != b {
			t.Errorf("%s of one node are two nodes: take it out of the note", c.name)
		}
	}
	g := G.NewGraph()
	w := func(value []float32) *G.Node {
		return G.NewVector(g, tensor.Float32, G.WithShape(2), G.WithName("w"), G.WithValue(tensor.New(tensor.WithBacking(value))))
	}
	if w([]float32{1, 2}) != w([]float32{3, 4}) {
		t.Error("two leaves of one name and shape are two nodes: take it out of the note")
	}
}
