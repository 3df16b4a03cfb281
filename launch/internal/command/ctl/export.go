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
		ArgsUsage: "CHECKPOINTS MODEL.safetensors|FOLDER",
		Description: `Writes the parameters and the running statistics of a checkpoint as a state dict. It needs no running job:

   launch ctl export ckpt model.safetensors                     the newest checkpoint in ckpt
   launch ctl export ckpt/step-00001000 model.safetensors       this one
   launch ctl export saved.safetensors model.safetensors        a file of the store's Save
   launch ctl export --ema ckpt model.safetensors               the moving averages of the parameters
   launch ctl export --format hf ckpt gpt2-tuned                a folder that transformers' from_pretrained loads
   launch ctl export --format timm ckpt vit.safetensors         the names that timm has for this model

   model = torchvision.models.resnet18(num_classes=10)          # ResNet18 with the ImageNet stem
   model.load_state_dict(safetensors.torch.load_file("model.safetensors"))

Names and layouts are PyTorch's; the optimizer's state is left out. nn.GPT, nn.Llama and nn.ViT have other formats, too: hf, that of Hugging Face's transformers, for all three; nanogpt; meta, with
interleaved rotary rows; torchvision and timm. In the format hf a FOLDER gets model.safetensors and config.json. What the weights do not say, as the number of heads, is in the config.json that the
program has written beside its checkpoints (worker.WriteGPTConfig), or in that of --config: the folder that the training began with. Tokenizer files are not copied.

The checkpoint is verified by its checksums. For a .pth file: torch.save(safetensors.torch.load_file("model.safetensors"), "model.pth"). In a program: checkpoint.ExportAs, and checkpoint.Import for the other way.`,
		HideHelpCommand: true,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "ema", Usage: "the moving averages of the parameters in their place, of a run that keeps them (worker.FitConfig.EMA)"},
			&cli.StringFlag{Name: "format", Usage: "names and layouts of nn.GPT, nn.Llama and nn.ViT in the file: hf, nanogpt, meta, torchvision or timm", DefaultText: "the program's own names"},
			&cli.StringFlag{Name: "config", Usage: "a config.json of the model, or its folder, for --format hf into a folder and for meta", DefaultText: "the one beside the checkpoints"},
		},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return command.Usage(fmt.Errorf("launch ctl export: %w", err))
		},
		Action: func(c *cli.Context) error {
			cfg := checkpoint.ExportConfig{Averages: c.Bool("ema"), Format: c.String("format"), Config: c.String("config")}
			switch {
			case c.NArg() != 2 || cfg.Format == "" && !strings.HasSuffix(c.Args().Get(1), ".safetensors"):
				return command.Usagef("ctl export: got %q, want a checkpoint and a file .safetensors, or a folder with --format hf: launch ctl export ckpt model.safetensors", c.Args().Slice())
			case cfg.Config != "" && cfg.Format == "":
				return command.Usagef("ctl export: --config %s without --format, which it is for", cfg.Config)
			}
			e, err := checkpoint.ExportAs(c.Context, c.Args().Get(0), c.Args().Get(1), cfg)
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
