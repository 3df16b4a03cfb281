package nn_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// A step of a recurrent layer, forward and backward with the gradient of its input, which is a
// parameter here; with PARAGON_PROFILE=1 the time of its ops. Run it with
//
//	go test ./nn -run '^$' -bench RecurrentStep -cpu 2
func BenchmarkRecurrentStep(b *testing.B) {
	for _, c := range []struct {
		name                        string
		gru                         bool
		batch, steps, width, hidden int
	}{
		{"LSTM", false, 32, 128, 256, 256},
		{"GRU", true, 32, 128, 256, 256},
	} {
		b.Run(fmt.Sprintf("layer=%s/hidden=%d/T=%d/batch=%d", c.name, c.hidden, c.steps, c.batch), func(b *testing.B) {
			g := gorgonia.NewGraph()
			x, cfg := weight(g, "x", c.batch, c.steps, c.width), nn.RecurrentConfig{Hidden: c.hidden}
			var y *gorgonia.Node
			if c.gru {
				y, _ = nn.GRU(x, "rnn", cfg)
			} else {
				y, _, _ = nn.LSTM(x, "rnn", cfg)
			}
			p, err := nn.Compile(nn.MSE(y, nn.Input(g, "t", y.Shape()...)), nn.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			if os.Getenv("PARAGON_PROFILE") != "" {
				profile(b, p)
			}
			for b.Loop() {
				step(b, p, nil)
			}
			b.ReportMetric(float64(c.batch*c.steps)*float64(b.N)/b.Elapsed().Seconds(), "steps/s")
		})
	}
}
