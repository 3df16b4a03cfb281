package worker

import (
	"errors"
	"math"
	"testing"

	"golang.org/x/sync/errgroup"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
)

// One step in 16 is measured where the servers can do it at next to no cost, on all workers, and
// the norm is that of the mean gradient over all examples.
func TestTheNormOfTheGradientIsMeasured(t *testing.T) {
	const workers = 2
	for _, test := range []struct {
		name        string
		optimizer   optim.Config
		compression kvstore.Compression
		set         kvstore.Compression // after the trainer was made
		want        float64             // NaN: it is not measured
	}{
		{"clipped", optim.Config{Name: "adam", ClipGlobalNorm: 1}, kvstore.Compression{}, kvstore.Compression{}, 1.5 * math.Sqrt(10)},
		{"sgd", optim.Config{Name: "sgd", LearningRate: 1}, kvstore.Compression{}, kvstore.Compression{}, 1.5 * math.Sqrt(10)},
		{"fp16", optim.Config{Name: "sgd", LearningRate: 1}, kvstore.Compression{Type: "fp16"}, kvstore.Compression{}, 1.5 * math.Sqrt(10)},
		{"adam", optim.Config{Name: "adam"}, kvstore.Compression{}, kvstore.Compression{}, math.NaN()},
		{"2bit", optim.Config{Name: "sgd"}, kvstore.Compression{Type: "2bit"}, kvstore.Compression{}, math.NaN()},
		{"2bit later", optim.Config{Name: "sgd"}, kvstore.Compression{}, kvstore.Compression{Type: "2bit"}, math.NaN()},
	} {
		t.Run(test.name, func(t *testing.T) {
			stores := jobtest.New(t, jobtest.Config{Workers: workers, Servers: 2}).Stores(t, "dist_sync")
			var group errgroup.Group
			for rank, store := range stores {
				g := G.NewGraph()
				ones := tensor.New(tensor.WithShape(10), tensor.WithBacking([]float32{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}))
				w := G.NewVector(g, tensor.Float32, G.WithShape(10), G.WithName("w"), G.WithValue(ones))
				program, err := nn.Compile(G.Must(G.Sum(G.Must(G.Mul(w, G.NewConstant(float32(rank+1)))))), nn.Config{})
				if err != nil {
					t.Fatal(err)
				}
				group.Go(func() error {
					trainer, err := NewTrainer(t.Context(), Config{Store: store, Programs: []*nn.Program{program}, Optimizer: test.optimizer, Compression: test.compression})
					if err != nil {
						return err
					}
					defer trainer.Close()
					if test.set.Type != "" {
						if err := store.SetCompression(t.Context(), test.set); err != nil {
							return err
						}
					}
					for step := range 2*normEvery + 2 {
						if err := trainer.Step(t.Context(), []int{1}); err != nil {
							return err
						}
						got := trainer.norm.tell()
						want := math.NaN()
						clips := test.optimizer.ClipGlobalNorm > 0 && step > 0
						if step%normEvery == 1 || clips { // the step after the one that is measured
							want = test.want
						}
						if math.Abs(got-want) > 1e-5*want || math.IsNaN(got) != math.IsNaN(want) {
							t.Errorf("rank %d step %d: the norm is %v, want %v", rank, step, got, want)
						}
					}
					return errors.Join(trainer.Flush(t.Context()), store.Barrier(t.Context()))
				})
			}
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
