package worker

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/nn"
)

// ImportModel gives a program the parameters and running statistics of a file or a checkpoint, by
// their names: PyTorch's state dict, a folder of Hugging Face's, or what else checkpoint.Import
// reads. A program with nn.GPT, nn.Llama or nn.ViT takes files of Hugging Face, nanoGPT, Meta,
// torchvision and timm, each with its names and layouts; GPTConfig and the like read the config.json
// beside them. Call it on rank 0 before NewTrainer, which brings its first values to all devices of
// all workers. It returns the names that the program does not have.
func ImportModel(ctx context.Context, program *nn.Program, from string) (unused []string, err error) {
	return checkpoint.Import(ctx, from, arraysOf(program))
}

// ImportPart is ImportModel of a part of a model, to train it further on another task: cfg says
// which names to skip or to change, as the head of another data set. What nn.Config.Freeze leaves
// as it is gets its values, too. WriteImported shows what was done.
func ImportPart(ctx context.Context, program *nn.Program, from string, cfg checkpoint.ImportConfig) (*checkpoint.Imported, error) {
	return checkpoint.ImportPart(ctx, from, arraysOf(program), cfg)
}

// arraysOf lists all that makes a program's model.
func arraysOf(program *nn.Program) (into []checkpoint.Array) {
	for _, list := range [][]nn.Param{program.Params(), program.State(), program.Frozen()} {
		for _, p := range list {
			into = append(into, checkpoint.Array{Name: p.Name, Shape: p.Shape, Values: p.Value})
		}
	}
	return into
}

// WriteImported writes a table of what an import has done with each array of the model and of the
// file, and which are frozen.
func WriteImported(w io.Writer, done *checkpoint.Imported, program *nn.Program) error {
	table := metrics.Table{Columns: []string{"what", "arrays", "names"}}
	row := func(what string, names []string) {
		if len(names) > 0 {
			table.Row(what, len(names), firstOf(names, 6))
		}
	}
	table.Row("loaded from the file", len(done.Loaded), "")
	row("skipped: as they were", done.Skipped)
	// With shapes, fewer names fit into a line.
	var other []string
	for _, m := range done.Mismatched {
		other = append(other, fmt.Sprintf("%s (%v, in the file %v)", m.Name, m.Model, m.File))
	}
	if len(other) > 0 {
		table.Row("of another shape: as they were", len(other), firstOf(other, 3))
	}
	row("in the file only: not used", done.Unused)
	var frozen []string
	for _, p := range program.Frozen() {
		frozen = append(frozen, p.Name)
	}
	row("frozen: not trained", frozen)
	_, err := table.WriteTo(w)
	return err
}

// firstOf lists the first names.
func firstOf(names []string, shown int) string {
	text := strings.Join(names[:min(len(names), shown)], ", ")
	if more := len(names) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
