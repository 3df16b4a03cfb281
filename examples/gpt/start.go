package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// startSettings say which model a run starts with, and what of it stays as it is.
type startSettings struct {
	// file has the model; none: the network starts with random values. importing says how its
	// tensors become the network's.
	file      string
	importing checkpoint.ImportConfig

	// freeze are the names that are not trained.
	freeze []string
}

func startFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "init-from", Usage: "start with the model in a file: a PyTorch state dict (.safetensors), a checkpoint, or a folder of Hugging Face's"},
		&cli.StringSliceFlag{Name: "init-skip", Usage: "with --init-from: names of the model that keep their first values, such as 'transformer.wpe.*'"},
		&cli.StringSliceFlag{Name: "init-rename", Usage: "with --init-from: OLD=NEW gives the file's tensors the model's names, such as 'h.*=transformer.h.*'"},
		&cli.BoolFlag{Name: "init-ignore-mismatched", Usage: "with --init-from: what has another shape in the file keeps its first values, such as positions of another --context"},
		&cli.StringSliceFlag{Name: "freeze", Usage: "names that are not trained, such as 'transformer.h.0.*'; '*' with '!transformer.ln_f.*' is all but the last normalisation"},
	}
}

func startFrom(c *cli.Context) startSettings {
	return startSettings{
		file: c.String("init-from"),
		importing: checkpoint.ImportConfig{
			Skip:             c.StringSlice("init-skip"),
			Rename:           c.StringSlice("init-rename"),
			IgnoreMismatched: c.Bool("init-ignore-mismatched"),
		},
		freeze: c.StringSlice("freeze"),
	}
}

// initialise gives rank 0's program the model of --init-from: NewTrainer brings it to the others.
func (s *startSettings) initialise(ctx context.Context, program *nn.Program, rank int) error {
	if rank != 0 || s.file == "" {
		return nil
	}
	done, err := worker.ImportPart(ctx, program, s.file, s.importing)
	if err != nil {
		return orMissing(fmt.Errorf("--init-from: %w", flagged(err)))
	}
	fmt.Printf("Loaded the model from %s\n", done.From)
	return worker.WriteImported(os.Stdout, done, program)
}

// orMissing says of an error of a file that is not there that no restart can mend it.
func orMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return kvstore.Final(err)
	}
	return err
}

// A flagError is an error in the words of the command line.
type flagError struct {
	error
	text string
}

func (e flagError) Error() string { return e.text }
func (e flagError) Unwrap() error { return e.error }

var flagNames = strings.NewReplacer(
	"Config.Freeze", "--freeze",
	"ImportConfig.Skip", "--init-skip",
	"ImportConfig.Rename", "--init-rename",
	"ImportConfig.IgnoreMismatched", "--init-ignore-mismatched",
)

// flagged names flags where an import or a compilation names fields.
func flagged(err error) error { return flagError{err, flagNames.Replace(err.Error())} }
