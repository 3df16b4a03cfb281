package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// startAs makes the model that of the run which --resume goes on with, or that of --init-from, as the
// config.json beside the weights describes it: with other heads, or another GELU, the weights fit and
// compute something else. Without that file, and with --init-ignore-mismatched, the flags say it all.
func (s *settings) startAs(ctx context.Context) error {
	if s.checkpoint.Resume {
		cfg, err := configBeside(ctx, s.checkpoint.Dir)
		switch {
		case err != nil:
			return fmt.Errorf("--resume: %w", err)
		case cfg != nil:
			return s.as(cfg, "of the run in "+s.checkpoint.Dir)
		}
	}
	if s.start.file == "" || s.start.importing.IgnoreMismatched {
		return nil
	}
	if path, err := checkpoint.LocalPath(s.start.file); err == nil {
		// A worker that cannot see the file would make another model than rank 0 loads.
		if _, err := os.Stat(path); err != nil {
			return orMissing(fmt.Errorf("--init-from: %w; want a model that each worker can read", err))
		}
	}
	cfg, err := configBeside(ctx, s.start.file)
	if err != nil {
		return fmt.Errorf("--init-from: %w", err)
	}
	if cfg == nil {
		return nil
	}
	return s.as(cfg, "of --init-from")
}

// as takes what a config.json says, unless flags that were given say otherwise. whose says in errors
// which model it is.
func (s *settings) as(cfg *nn.GPTConfig, whose string) error {
	m := &s.model
	there := map[string]int{"layers": cfg.Layers, "heads": cfg.Heads, "width": cfg.Width}
	here := map[string]int{"layers": m.layers, "heads": m.heads, "width": m.width}
	for _, name := range m.given {
		if here[name] != there[name] {
			return kvstore.Final(fmt.Errorf("--%s is %d, and the model %s has %d: leave the flag out", name, here[name], whose, there[name]))
		}
	}
	switch {
	case m.context > cfg.Positions:
		return kvstore.Final(fmt.Errorf("--context is %d, want at most the %d positions of the model %s, or --init-ignore-mismatched for new positions", m.context, cfg.Positions, whose))
	case s.text.tokenizer == "" && m.vocabulary != cfg.Vocabulary:
		return kvstore.Final(fmt.Errorf("bytes are %d tokens, and the model %s has %d: want --tokenizer with the tokenizer that it was trained with", m.vocabulary, whose, cfg.Vocabulary))
	case m.vocabulary > cfg.Vocabulary:
		return kvstore.Final(fmt.Errorf("--tokenizer has %d tokens, and the model %s %d: want the tokenizer that it was trained with", m.vocabulary, whose, cfg.Vocabulary))
	}
	m.layers, m.heads, m.width, m.started = cfg.Layers, cfg.Heads, cfg.Width, cfg
	return nil
}

// configBeside reads the config.json of a folder, or of the folder that a file or the checkpoint of
// a step is in; nil if there is none.
func configBeside(ctx context.Context, from string) (*nn.GPTConfig, error) {
	folder := strings.TrimRight(from, "/")
	parent, name, err := checkpoint.SplitURI(folder)
	if err == nil && (strings.HasSuffix(name, ".safetensors") || strings.HasPrefix(name, "step-")) {
		folder = parent
	}
	cfg, err := worker.GPTConfig(ctx, folder)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &cfg, nil
}

// A configWriter writes the model's config.json beside the checkpoints when the run begins, for
// `launch ctl export --format hf`.
type configWriter struct {
	ctx context.Context
	dir string
	cfg nn.GPTConfig
}

// Begin writes the file. The run goes on without it: an export can be given another one.
func (w configWriter) Begin(run worker.Run) {
	if run.Rank != 0 {
		return
	}
	if err := worker.WriteGPTConfig(w.ctx, w.dir, w.cfg); err != nil {
		fmt.Fprintf(os.Stderr, "gpt: config.json is not beside the checkpoints, so that launch ctl export --format hf needs --config: %v\n", err)
	}
}

func (configWriter) Step(worker.StepInfo)   {}
func (configWriter) Epoch(worker.EpochInfo) {}
func (configWriter) End()                   {}
