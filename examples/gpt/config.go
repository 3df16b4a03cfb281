package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

// startAs takes the sizes of the model, and its kind of GELU, from the config.json beside the files
// of --init-from, if there is one. With --init-ignore-mismatched the flags say them.
func (s *settings) startAs(ctx context.Context) error {
	if s.start.file == "" || s.start.importing.IgnoreMismatched {
		return nil
	}
	cfg, err := worker.GPTConfig(ctx, s.start.file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("--init-from: %w", err)
	}
	m := &s.model
	there := map[string]int{"layers": cfg.Layers, "heads": cfg.Heads, "width": cfg.Width}
	here := map[string]int{"layers": m.layers, "heads": m.heads, "width": m.width}
	for _, name := range m.given {
		if here[name] != there[name] {
			return kvstore.Final(fmt.Errorf("--%s is %d, and the model of --init-from has %d: leave the flag out", name, here[name], there[name]))
		}
	}
	switch {
	case m.context > cfg.Positions:
		return kvstore.Final(fmt.Errorf("--context is %d, want at most the %d positions of the model of --init-from, or --init-ignore-mismatched for new positions", m.context, cfg.Positions))
	case m.vocabulary > cfg.Vocabulary:
		return kvstore.Final(fmt.Errorf("--tokenizer has %d tokens, and the model of --init-from %d: want the tokenizer that it was trained with", m.vocabulary, cfg.Vocabulary))
	}
	m.layers, m.heads, m.width, m.started = cfg.Layers, cfg.Heads, cfg.Width, &cfg
	return nil
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
