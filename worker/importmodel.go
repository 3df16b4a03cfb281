package worker

import (
	"context"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/nn"
)

// ImportModel gives a program the parameters and running statistics of a file or a checkpoint, by their names: PyTorch's state dict, or what
// checkpoint.Import reads. Call it on rank 0 before NewTrainer, which brings its first values to all devices of all workers. It returns the
// names that the program does not have.
func ImportModel(ctx context.Context, program *nn.Program, from string) (unused []string, err error) {
	var into []checkpoint.Array
	for _, list := range [][]nn.Param{program.Params(), program.State()} {
		for _, p := range list {
			into = append(into, checkpoint.Array{Name: p.Name, Shape: p.Shape, Values: p.Value})
		}
	}
	return checkpoint.Import(ctx, from, into)
}
