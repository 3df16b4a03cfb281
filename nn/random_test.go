package nn_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// randomNet stacks layers drawn from a seed, with residuals to images seen before, and now and then an op of gorgonia's.
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
			switch rng.IntN(9) {
			case 0, 1:
				kernel := 1 + 2*rng.IntN(2)
				x = nn.Conv2D(x, name, nn.Conv2DConfig{Filters: 1 + rng.IntN(9), Kernel: nn.Square(kernel), Stride: nn.Square(1 + rng.IntN(2)),
					Pad: nn.Square(kernel / 2), Bias: rng.IntN(2) == 0})
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
			case 7:
				for _, y := range seen {
					if y != x && y.Shape().Eq(s) {
						x = nn.Add(x, y)
						break
					}
				}
			case 8:
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
	for seed := range uint64(40) {
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
