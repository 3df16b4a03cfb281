package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"
	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/data/text"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/nn/generate"
)

// sampleSettings say what the model writes at the end.
type sampleSettings struct {
	// tokens is how many are written; 0: none.
	tokens int
	prompt string
	how    generate.Sampling
}

func sampleFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "sample", Value: 500, Usage: "bytes, or tokens of --tokenizer, that rank 0 lets the model write at the end (0: none)"},
		&cli.StringFlag{Name: "prompt", Value: "\n", Usage: "what the model writes on from"},
		&cli.Float64Flag{Name: "temperature", Value: 0.8, Usage: "below 1 the model writes what is probable more often; 0 takes the most probable one"},
		&cli.IntFlag{Name: "top-k", Usage: "choose among the K most probable bytes or tokens (0: all)"},
		&cli.Float64Flag{Name: "top-p", Usage: "choose among the fewest bytes or tokens whose probabilities add up to P, such as 0.95 (0: all)"},
		&cli.Uint64Flag{Name: "sample-seed", Value: 1, Usage: "seed of the choice"},
	}
}

func sampleFrom(c *cli.Context) sampleSettings {
	return sampleSettings{
		tokens: c.Int("sample"),
		prompt: c.String("prompt"),
		how: generate.Sampling{
			Temperature: c.Float64("temperature"), TopK: c.Int("top-k"), TopP: c.Float64("top-p"), Seed: c.Uint64("sample-seed"),
		},
	}
}

func (s *sampleSettings) validate() error {
	switch {
	case s.tokens < 0:
		return fmt.Errorf("--sample is %d, want at least 1, or 0 for none", s.tokens)
	case s.prompt == "":
		return errors.New("--prompt is empty, want at least one byte to write on from")
	}
	if err := s.how.Validate(); err != nil {
		return fmt.Errorf("--temperature, --top-k, --top-p: %w", err)
	}
	return nil
}

// write lets the model of a program write on from the prompt, as it comes.
func (s *sampleSettings) write(ctx context.Context, to io.Writer, tokenizer text.Tokenizer, cfg nn.GPTConfig, program *nn.Program) (err error) {
	if s.tokens == 0 {
		return nil
	}
	decoder, err := generate.NewDecoder(generate.DecoderConfig{
		Share: program, Layers: cfg.Layers, Positions: cfg.Positions,
		Build: func(tokens, first *gorgonia.Node, caches []*nn.KVCache) *gorgonia.Node {
			cfg.First, cfg.Cache = first, caches
			return nn.GPT(tokens, cfg)
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, decoder.Close()) }()
	chooser, err := generate.NewChooser(s.how)
	if err != nil {
		return err
	}
	tokens := tokenizer.Append(nil, s.prompt)
	written := text.NewDecoder(tokenizer)
	write := func(token int32) error {
		characters, err := written.Add(token)
		if err == nil {
			_, err = fmt.Fprint(to, characters)
		}
		return err
	}
	for _, token := range tokens {
		if err := write(token); err != nil {
			return err
		}
	}
	for range s.tokens {
		logits, err := decoder.Add(ctx, tokens...)
		if err != nil {
			return err
		}
		token, err := chooser.Next(logits)
		if err != nil {
			return err
		}
		if err := write(token); err != nil {
			return err
		}
		tokens = []int32{token}
	}
	_, err = fmt.Fprintln(to, written.End())
	return err
}
