package nn_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// randomNet stacks layers drawn from a seed, with residuals to images seen before, and now and then
// an op of gorgonia's.
func randomNet(seed uint64) model {
	rng := rand.New(rand.NewPCG(seed, 2))
	shape := []int{1 + rng.IntN(3), 5 + rng.IntN(6), 5 + rng.IntN(6)}
	batch, depth := 2+rng.IntN(3), 3+rng.IntN(7)
	layers := rng.Uint64() // so that the net can be built twice
	return classifier(fmt.Sprintf("seed %d", seed), batch, shape, func(x *gorgonia.Node) *gorgonia.Node {
		rng := rand.New(rand.NewPCG(layers, 3))
		seen := gorgonia.Nodes{}
		for i := range depth {
			name := fmt.Sprintf("l%d", i)
			s := x.Shape()
			switch rng.IntN(11) {
			case 0, 1:
				kernel, filters, stride := 1+2*rng.IntN(2), 1+rng.IntN(9), 1+rng.IntN(2)
				if rng.IntN(2) == 0 {
					filters, stride = s[1], 1 // a residual may follow
				}
				x = nn.Conv2D(x, name, nn.Conv2DConfig{Filters: filters, Kernel: nn.Square(kernel), Stride: nn.Square(stride),
					Pad: nn.Square(kernel / 2), Bias: rng.IntN(3) == 0})
			case 2, 3:
				x = nn.BatchNorm2D(x, name, nn.BatchNormConfig{})
			case 4:
				x = nn.ReLU(x)
			case 5:
				if s[2] > 2 && s[3] > 2 {
					x = nn.MaxPool2D(x, nn.PoolConfig{Kernel: nn.Square(2 + rng.IntN(2)), Stride: nn.Square(1 + rng.IntN(2)), Pad: nn.Square(1)})
				}
			case 6:
				x = nn.Dropout(x, name, 0.25)
			case 7, 8, 9:
				for _, k := range rng.Perm(len(seen)) {
					if seen[k].Shape().Eq(s) { // also x itself
						x = nn.Add(x, seen[k])
						break
					}
				}
			case 10:
				x = gorgonia.Must(gorgonia.Tanh(x))
			}
			seen = append(seen, x)
		}
		if rng.IntN(2) == 0 {
			return nn.Linear(nn.GlobalAvgPool2D(x), "fc", nn.LinearConfig{Out: 5})
		}
		return end(x)
	})
}

func TestRandomNetsEqualReference(t *testing.T) {
	for seed := range uint64(60) {
		m := randomNet(seed)
		loss, p := compile(t, m, nn.Config{Threads: 1 + int(seed%3)})
		_, r := reference(t, m)
		fillInputs(t, loss.Graph(), p, r, m.classes, seed)
		step(t, p, nil)
		if err := r.Step(); err != nil {
			t.Fatal(err)
		}
		near(t, m.name+" loss", []float32{float32(p.Loss())}, []float64{r.Loss()}, tolerance)
		nearGradients(t, m.name, p, r, 1e-3)
		if t.Failed() {
			t.Fatalf("plan:\n%s", p.Plan())
		}
	}
}
