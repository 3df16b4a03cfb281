// Command gorgonia takes a gorgonia program as its users write it, with gorgonia's own ops, and
// swaps its virtual machine for Paragon's compiled program; launched, the same program trains on
// many workers.
//
//	gorgonia --before                 # gorgonia's TapeMachine and solver
//	gorgonia                          # the same graph, compiled
//	launch -n 2 -s 1 -- gorgonia      # and distributed
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/version"
	"github.com/paragon-train/paragon/worker"
)

const (
	batch        = 32
	features     = 8
	hidden       = 32
	steps        = 400
	learningRate = 0.05
)

func main() {
	before := flag.Bool("before", false, "run the original program: gorgonia's TapeMachine and solver")
	out := flag.String("out", "out", "folder for TensorBoard's files, under tensorboard")
	version.AddFlag(flag.CommandLine)
	kvstore.ParseFlags()
	run := after
	if *before {
		run = func(context.Context, string) ([]float64, error) { return tape() }
	}
	if _, err := run(context.Background(), *out); err != nil {
		fmt.Fprintln(os.Stderr, "gorgonia:", err)
		os.Exit(1)
	}
}

// network is a user's own graph: two layers and a mean squared error, of nothing but gorgonia's
// ops.
type network struct {
	x, y, loss *G.Node
	weights    G.Nodes
}

// build draws the first weights from a fixed seed: both virtual machines start alike.
func build() network {
	g := G.NewGraph()
	x := G.NewMatrix(g, tensor.Float32, G.WithShape(batch, features), G.WithName("x"))
	y := G.NewVector(g, tensor.Float32, G.WithShape(batch), G.WithName("y"))
	random := rand.New(rand.NewPCG(3, 4))
	weight := func(name string, shape ...int) *G.Node {
		values := make([]float32, tensor.Shape(shape).TotalSize())
		for i := range values {
			values[i] = float32(random.NormFloat64() / math.Sqrt(float64(shape[0])))
		}
		return G.NewTensor(g, tensor.Float32, len(shape), G.WithShape(shape...), G.WithName(name),
			G.WithValue(tensor.New(tensor.WithShape(shape...), tensor.WithBacking(values))))
	}
	w1, w2 := weight("w1", features, hidden), weight("w2", hidden)
	h := G.Must(G.Tanh(G.Must(G.Mul(x, w1))))
	prediction := G.Must(G.Mul(h, w2))
	loss := G.Must(G.Mean(G.Must(G.Square(G.Must(G.Sub(prediction, y))))))
	return network{x: x, y: y, loss: loss, weights: G.Nodes{w1, w2}}
}

// fill draws a batch: y = sin(x₀) + x₁·x₂/2.
func fill(random *rand.Rand, x, y []float32) {
	for b := range y {
		row := x[b*features : (b+1)*features]
		for i := range row {
			row[i] = float32(random.NormFloat64())
		}
		y[b] = float32(math.Sin(float64(row[0]))) + row[1]*row[2]/2
	}
}

// tape is the program as it was. It returns the loss of each step.
func tape() (losses []float64, err error) {
	n := build()
	if _, err := G.Grad(n.loss, n.weights...); err != nil {
		return nil, err
	}
	machine := G.NewTapeMachine(n.loss.Graph(), G.BindDualValues(n.weights...))
	defer machine.Close()
	solver := G.NewVanillaSolver(G.WithLearnRate(learningRate))
	random := rand.New(rand.NewPCG(5, 0))
	x, y := make([]float32, batch*features), make([]float32, batch)
	for step := range steps {
		fill(random, x, y)
		if err := G.Let(n.x, tensor.New(tensor.WithShape(batch, features), tensor.WithBacking(x))); err != nil {
			return nil, err
		}
		if err := G.Let(n.y, tensor.New(tensor.WithShape(batch), tensor.WithBacking(y))); err != nil {
			return nil, err
		}
		if err := machine.RunAll(); err != nil {
			return nil, err
		}
		losses = append(losses, float64(n.loss.Value().Data().(float32)))
		show("TapeMachine", step, losses[step])
		if err := solver.Step(G.NodesToValueGrads(n.weights)); err != nil {
			return nil, err
		}
		machine.Reset()
	}
	return losses, nil
}

// after is the same graph, compiled; the store may be this process or a job's servers.
func after(ctx context.Context, out string) (losses []float64, err error) {
	n := build()
	nn.DeclareInput(n.x, n.y)
	program, err := nn.Compile(n.loss, nn.Config{})
	if err != nil {
		return nil, err
	}
	defer program.Close()
	store, err := kvstore.Create(ctx, "dist_sync")
	if err != nil {
		return nil, err
	}
	defer func() { err = kvstore.Leave(store, err) }()
	trainer, err := worker.NewTrainer(ctx, worker.Config{
		Store: store, Programs: []*nn.Program{program}, Optimizer: optim.Config{Name: "sgd", LearningRate: learningRate},
	})
	if err != nil {
		return nil, err
	}
	defer trainer.Close()
	x, err := program.Input("x")
	if err != nil {
		return nil, err
	}
	y, err := program.Input("y")
	if err != nil {
		return nil, err
	}
	board := worker.TensorBoard(filepath.Join(out, "tensorboard"))
	board.Begin(worker.Run{Rank: store.Rank(), Workers: store.NumWorkers()})
	defer board.End()

	// Every worker draws batches of its own.
	random := rand.New(rand.NewPCG(5, uint64(store.Rank())))
	for step := range steps {
		begin := time.Now()
		fill(random, x, y)
		if err := trainer.Step(ctx, []int{batch}); err != nil {
			return nil, err
		}
		losses = append(losses, program.Loss())
		board.Step(worker.StepInfo{
			Step: step, Done: uint64(step + 1), Loss: losses[step], Examples: batch, Batch: batch * store.NumWorkers(), Workers: store.NumWorkers(),
			LearningRate: learningRate, GradientNorm: math.NaN(), Staleness: math.NaN(), Took: time.Since(begin), Times: trainer.TakeTimes(),
		})
		show(fmt.Sprintf("worker %d of %d", store.Rank(), store.NumWorkers()), step, losses[step])
		if store.Rank() == 0 && step == steps-1 {
			// Launch tune reads this line.
			fmt.Printf("loss=%.6f step=%d\n", losses[step], step+1)
		}
	}
	return losses, trainer.Flush(ctx)
}

// show prints the loss of every hundredth step and of the last one.
func show(who string, step int, loss float64) {
	if step%100 == 0 || step == steps-1 {
		fmt.Printf("%s, step %d: loss %.6f\n", who, step, loss)
	}
}
