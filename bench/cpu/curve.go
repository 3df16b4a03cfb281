package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/urfave/cli/v2"
	"gorgonia.org/gorgonia"
)

// curveCommand trains the default model of examples/gpt on windows of a text, and leaves what
// bench/peers/curves.py trains it again with, by PyTorch:
//
//	cpu curve --text FILE --out FOLDER
//	python bench/peers/curves.py FOLDER
func curveCommand() *cli.Command {
	return &cli.Command{
		Name:  "curve",
		Usage: "losses of the model of examples/gpt, with what a peer repeats them by",
		Flags: []cli.Flag{
			&cli.PathFlag{Name: "text", Required: true},
			&cli.PathFlag{Name: "out", Required: true, Usage: "folder for weights, batches and losses"},
			&cli.IntFlag{Name: "steps", Value: 100},
			&cli.IntFlag{Name: "threads", Value: 2},
		},
		Action: curve,
	}
}

const curveBatch, curveLength = 12, 64

var curveModel = nn.GPTConfig{Layers: 4, Heads: 4, Width: 128, Positions: curveLength, Vocabulary: 256, Activation: "none"}

// curveRule is that of examples/gpt: half of a short run is warm-up.
func curveRule(steps int) optim.Config {
	return optim.Config{
		Name: "adamw", LearningRate: 1e-3, Beta2: 0.99, WeightDecay: 0.1,
		Schedule: optim.Schedule{Kind: "cosine", Steps: uint64(steps), Final: 1e-4, Warmup: uint64(min(100, steps/2))},
	}
}

// A recorded run is all that another program needs to repeat it; weights and batches are in files of
// their own, weights.bin (float32) and batches.bin (bytes: steps, windows, positions and one more).
type recorded struct {
	Parameters    []recordedParameter
	Batch, Length int
	Losses, Rates []float64
	Rule          optim.Config
}

type recordedParameter struct {
	Name  string
	Shape []int
}

func curve(c *cli.Context) (err error) {
	text, err := os.ReadFile(c.Path("text"))
	if err != nil {
		return err
	}
	if len(text) <= curveLength || c.Int("steps") < 1 {
		return fmt.Errorf("--text %s has %d bytes and --steps is %d, want more than %d and at least 1", c.Path("text"), len(text), c.Int("steps"), curveLength)
	}
	out := c.Path("out")
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	g := gorgonia.NewGraph()
	loss := nn.GPTLoss(nn.IDs(g, "tokens", curveBatch, curveLength), nn.Labels(g, "labels", curveBatch, curveLength), curveModel, nn.CrossEntropyConfig{})
	p, err := nn.Compile(loss, nn.Config{Threads: c.Int("threads")})
	if err != nil {
		return err
	}
	t, err := trainingOf(p, curveRule(c.Int("steps")))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	run := recorded{Batch: curveBatch, Length: curveLength, Rule: curveRule(c.Int("steps"))}
	var weights []byte
	for _, q := range p.Params() {
		run.Parameters = append(run.Parameters, recordedParameter{q.Name, q.Shape})
		if weights, err = binary.Append(weights, binary.LittleEndian, q.Value); err != nil {
			return err
		}
	}
	batches, err := t.losses(c, &run, text)
	if err != nil {
		return err
	}
	about, err := json.MarshalIndent(run, "", "\t")
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"weights.bin": weights, "batches.bin": batches, "run.json": about} {
		if err := os.WriteFile(filepath.Join(out, name), data, 0o666); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(c.App.Writer, "%d steps, loss %.6f to %.6f\n", len(run.Losses), run.Losses[0], run.Losses[len(run.Losses)-1])
	return err
}

// losses trains, and returns the windows of all steps.
func (t *training) losses(c *cli.Context, run *recorded, text []byte) (batches []byte, err error) {
	tokens, err := t.program.IDs("tokens")
	if err != nil {
		return nil, err
	}
	labels, err := t.program.Labels("labels")
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range c.Int("steps") {
		var inputs, next []int32
		for range curveBatch {
			at := r.IntN(len(text) - curveLength)
			window := text[at : at+curveLength+1]
			batches = append(batches, window...)
			for i := range curveLength {
				inputs, next = append(inputs, int32(window[i])), append(next, int32(window[i+1]))
			}
		}
		tokens.Set(inputs)
		labels.Set(next)
		if err := t.Step(c.Context); err != nil {
			return nil, err
		}
		run.Losses, run.Rates = append(run.Losses, t.program.Loss()), append(run.Rates, run.Rule.LearningRateAt(t.step-1))
	}
	return batches, nil
}
