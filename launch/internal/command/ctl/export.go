package ctl

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/observe/plural"
	"github.com/paragon-train/paragon/launch/internal/command"
)

// exportCommand is `launch ctl export`. It reads a checkpoint alone, so it works while the job
// runs, after it, and on another machine.
func exportCommand() *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "write a checkpoint's model as a file that PyTorch loads",
		ArgsUsage: "CHECKPOINTS MODEL.safetensors",
		Description: `Writes the parameters and the running statistics of a checkpoint as a state dict. It needs no running job:

   launch ctl export ckpt model.safetensors                     the newest checkpoint in ckpt
   launch ctl export ckpt/step-00001000 model.safetensors       this one
   launch ctl export saved.safetensors model.safetensors        a file of the store's Save
   launch ctl export --ema ckpt model.safetensors               the moving averages of the parameters

   model = torchvision.models.resnet18(num_classes=10)          # ResNet18 with the ImageNet stem
   model.load_state_dict(safetensors.torch.load_file("model.safetensors"))

Names and layouts are PyTorch's; the optimizer's state is left out. The checkpoint is verified by its checksums. For a .pth file: torch.save(safetensors.torch.load_file(
"model.safetensors"), "model.pth"). In a program: checkpoint.Export, and checkpoint.Import for the other way.`,
		HideHelpCommand: true,
		Flags:           []cli.Flag{&cli.BoolFlag{Name: "ema", Usage: "the moving averages of the parameters in their place, of a run that keeps them (worker.FitConfig.EMA)"}},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return command.Usage(fmt.Errorf("launch ctl export: %w", err))
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 2 || !strings.HasSuffix(c.Args().Get(1), ".safetensors") {
				return command.Usagef("ctl export: got %q, want a checkpoint and a file .safetensors: launch ctl export ckpt model.safetensors", c.Args().Slice())
			}
			export := checkpoint.Export
			if c.Bool("ema") {
				export = checkpoint.ExportAverages
			}
			e, err := export(c.Context, c.Args().Get(0), c.Args().Get(1))
			if err != nil {
				return fmt.Errorf("launch: ctl export: %w", err)
			}

			// What is said on the standard error does not keep the file from being
			// written: it may be what the user wants.
			if !e.Verified {
				fmt.Fprintf(c.App.ErrWriter, "launch: %s was written by an older version, without checksums: it is not verified\n", e.From)
			}
			if e.Flat {
				fmt.Fprintf(c.App.ErrWriter, "launch: %s was written by an older version, without shapes: PyTorch rejects weights of more than one dimension. Resume the job and let it save a new checkpoint\n", e.From)
			}
			if len(e.LeftOut) > 0 {
				fmt.Fprintf(c.App.ErrWriter, "launch: left out, because PyTorch has no open vocabularies: %s\n", strings.Join(e.LeftOut, ", "))
			}
			_, err = fmt.Fprintf(c.App.Writer, "wrote %s, %d bytes, of %s after %s: %s\n", plural.Of(e.Tensors, "tensor"), e.Bytes, e.From, plural.Of(e.Steps, "step"), c.Args().Get(1))
			return err
		},
	}
}
