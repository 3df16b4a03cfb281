package main

import (
	"context"
	"fmt"
	"os"

	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/worker"
)

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
