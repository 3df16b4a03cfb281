package program

import (
	"os"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/worker"
)

// CheckpointFlags are the flags of Checkpoints.
func CheckpointFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "checkpoint-dir", Usage: "place for checkpoints: a folder, or the URL of a bucket: s3://bucket/prefix?region=..., gs://bucket/prefix or azblob://container/prefix (default: none)"},
		&cli.IntFlag{Name: "checkpoint-steps", Usage: "save every N steps, besides the end of each epoch"},
		&cli.DurationFlag{Name: "checkpoint-every", Usage: "save at this interval, such as 10m, besides the end of each epoch; not with dist_async"},
		&cli.IntFlag{Name: "checkpoint-failures", Value: 3, Usage: "end when N checkpoints in a row could not be written; until then each is a warning, and is tried again later"},
		&cli.BoolFlag{Name: "resume", Usage: "resume from the newest checkpoint in --checkpoint-dir; launch --restarts sets this when it restarts the job", EnvVars: []string{"PARAGON_RESUME"}},
		&cli.Uint64Flag{Name: "resume-step", Usage: "with --resume: resume from the checkpoint after this many steps, if newer ones are damaged (0: the newest)"},
	}
}

// Checkpoints tells where and when to save, and whether to resume. A job without checkpoints that
// launch starts again begins anew; one with checkpoints goes on from the newest whole one.
func Checkpoints(c *cli.Context) worker.CheckpointConfig {
	cfg := worker.CheckpointConfig{
		Dir: c.String("checkpoint-dir"), EverySteps: c.Int("checkpoint-steps"), Every: c.Duration("checkpoint-every"),
		Failures: c.Int("checkpoint-failures"), Resume: c.Bool("resume"), ResumeStep: c.Uint64("resume-step"),
	}
	if os.Getenv("PARAGON_RESUME") != "" {
		cfg.Resume, cfg.ResumeStep, cfg.Fallback = cfg.Resume && cfg.Dir != "", 0, true
	}
	return cfg
}
