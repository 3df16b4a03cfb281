package worker

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/checkpoint/models"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/nn"
)

// GPTConfig reads what the config.json of a GPT-2 says, in a folder of Hugging Face's or by the
// file's own name, for nn.GPT. ImportModel reads the weights beside it. What nn.GPT cannot do is an
// error that names it.
func GPTConfig(ctx context.Context, from string) (nn.GPTConfig, error) {
	c, err := configOf[*models.GPT2Config](ctx, from, "GPT-2")
	if err != nil {
		return nn.GPTConfig{}, err
	}
	return nn.GPTConfig{
		Layers: c.Layers, Heads: c.Heads, Width: c.Width, Positions: c.Positions, Vocabulary: c.Vocabulary,
		Dropout: c.Dropout, Activation: c.Activation, Epsilon: c.Epsilon,
	}, nil
}

// LlamaConfig is GPTConfig of a Llama, for nn.Llama.
func LlamaConfig(ctx context.Context, from string) (nn.LlamaConfig, error) {
	c, err := configOf[*models.LlamaConfig](ctx, from, "Llama")
	if err != nil {
		return nn.LlamaConfig{}, err
	}
	cfg := nn.LlamaConfig{
		Layers: c.Layers, Heads: c.Heads, KVHeads: c.KVHeads, Width: c.Width, HeadSize: c.HeadSize, Inner: c.Inner, Vocabulary: c.Vocabulary,
		Positions: c.Positions, Epsilon: c.Epsilon, Tied: c.Tied, Rotary: nn.RotaryConfig{Base: c.RotaryBase, Size: c.Rotated},
	}
	if s := c.Scaling; s != nil {
		cfg.Rotary.Scaling = &nn.RotaryScaling{Factor: s.Factor, Low: s.Low, High: s.High, Original: s.Original}
	}
	return cfg, nil
}

// ViTConfig is GPTConfig of a vision transformer, for nn.ViT. image is the height and width of the
// images that it was trained on.
func ViTConfig(ctx context.Context, from string) (_ nn.ViTConfig, image int, err error) {
	c, err := configOf[*models.ViTConfig](ctx, from, "ViT")
	if err != nil {
		return nn.ViTConfig{}, 0, err
	}
	return nn.ViTConfig{
		Layers: c.Layers, Heads: c.Heads, Width: c.Width, Inner: c.Inner, Patch: c.Patch, Classes: c.Classes, Dropout: c.Dropout, Epsilon: c.Epsilon,
	}, c.Image, nil
}

// configOf reads the config.json of one kind of model.
func configOf[T models.Config](ctx context.Context, from, model string) (T, error) {
	c, err := checkpoint.ReadConfig(ctx, from)
	if err != nil {
		var none T
		return none, err
	}
	own, ok := c.(T)
	if !ok {
		return own, exitreport.Final(exitreport.Usage, fmt.Errorf("worker: %s: config.json is of %s, want one of %s", from, c.Model(), model))
	}
	return own, nil
}

// WriteGPTConfig writes the config.json of a GPT into a folder or bucket. Beside a run's checkpoints
// (CheckpointConfig.Dir) it is what `launch ctl export --format hf` needs to know.
func WriteGPTConfig(ctx context.Context, to string, cfg nn.GPTConfig) error {
	c := &models.GPT2Config{
		Layers: cfg.Layers, Heads: cfg.Heads, Width: cfg.Width, Positions: cfg.Positions, Vocabulary: cfg.Vocabulary,
		Dropout: cfg.Dropout, Activation: cfg.Activation, Epsilon: orElse(cfg.Epsilon, 1e-5),
	}
	return checkpoint.WriteConfig(ctx, to, c)
}

// WriteLlamaConfig is WriteGPTConfig of a Llama.
func WriteLlamaConfig(ctx context.Context, to string, cfg nn.LlamaConfig) error {
	c := &models.LlamaConfig{
		Layers: cfg.Layers, Heads: cfg.Heads, KVHeads: orElse(cfg.KVHeads, cfg.Heads), Width: cfg.Width, Inner: cfg.Inner, Vocabulary: cfg.Vocabulary,
		Positions: orElse(cfg.Positions, 2048), Epsilon: orElse(cfg.Epsilon, 1e-5), Tied: cfg.Tied, RotaryBase: orElse(cfg.Rotary.Base, 10000),
	}
	c.HeadSize = orElse(cfg.HeadSize, cfg.Width/max(cfg.Heads, 1))
	c.Rotated = orElse(cfg.Rotary.Size, c.HeadSize)
	if cfg.Rotary.Interleaved {
		return fmt.Errorf("worker: WriteLlamaConfig: Rotary.Interleaved is true, and Hugging Face's Llama turns halves: build the model with halves")
	}
	if s := cfg.Rotary.Scaling; s != nil {
		c.Scaling = &models.RotaryScaling{Factor: s.Factor, Low: orElse(s.Low, 1), High: orElse(s.High, 4), Original: s.Original}
	}
	return checkpoint.WriteConfig(ctx, to, c)
}

// WriteViTConfig is WriteGPTConfig of a vision transformer over images of so many channels, and of
// this height and width.
func WriteViTConfig(ctx context.Context, to string, cfg nn.ViTConfig, channels, image int) error {
	return checkpoint.WriteConfig(ctx, to, &models.ViTConfig{
		Layers: cfg.Layers, Heads: cfg.Heads, Width: cfg.Width, Inner: orElse(cfg.Inner, 4*cfg.Width), Patch: cfg.Patch, Classes: cfg.Classes,
		Image: image, Channels: channels, Dropout: cfg.Dropout, Epsilon: orElse(cfg.Epsilon, 1e-6),
	})
}

// orElse is a value, or what its zero stands for.
func orElse[T comparable](value, zero T) T {
	var none T
	if value == none {
		return zero
	}
	return value
}
