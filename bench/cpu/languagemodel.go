package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/nn/generate"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// gpt10M reads bytes, and gpt2 is GPT-2 of 124 million parameters, here with made-up ones.
var (
	gpt10M = nn.GPTConfig{Layers: 6, Heads: 6, Width: 384, Positions: 256, Vocabulary: 256, Activation: "none"}
	gpt2   = nn.GPTConfig{Layers: 12, Heads: 12, Width: 768, Positions: 1024, Vocabulary: 50257}
)

// languageModel is a GPT over sequences of so many tokens.
func languageModel(cfg nn.GPTConfig, length int) model {
	loss := func(batch int) *gorgonia.Node {
		g := gorgonia.NewGraph()
		return nn.GPTLoss(nn.IDs(g, "tokens", batch, length), nn.Labels(g, "labels", batch, length), cfg, nn.CrossEntropyConfig{})
	}
	return model{loss: loss, ids: map[string]int{"tokens": cfg.Vocabulary}, labels: map[string]int{"labels": cfg.Vocabulary}, rule: adamW}
}

// attention is causal attention alone, with the gradients of queries, keys and values, which are its
// parameters. There is no update: a step is both passes.
func attention(heads, length, size int) model {
	loss := func(batch int) *gorgonia.Node {
		g := gorgonia.NewGraph()
		leaf := func(name string) *gorgonia.Node {
			return gorgonia.NewTensor(g, tensor.Float32, 4, gorgonia.WithShape(batch, length, heads, size), gorgonia.WithName(name), gorgonia.WithInit(gorgonia.Gaussian(0, 1)))
		}
		o := nn.Attention(leaf("q"), leaf("k"), leaf("v"), nn.AttentionConfig{Causal: true})
		rows := batch * length
		return nn.MSE(nn.Reshape(o, rows, heads*size), nn.Input(g, "target", rows, heads*size))
	}
	return model{loss: loss, numbers: "target"}
}

// sampleName and readName are values of --model: a step of the one is a token of GPT-2 with keys and
// values in a cache, and one of the other a read of all of GPT-2's parameters, which is the least that
// a token takes.
const (
	sampleName = "gpt2-124m-token"
	readName   = "gpt2-124m-read"
)

// prompt is how many tokens a sequence has at first, and longest where it begins anew.
const (
	prompt  = 64
	longest = 512
)

// A sampling is GPT-2 that writes.
type sampling struct {
	program *nn.Program
	decoder *generate.Decoder
}

func newSampling(w work) (s *sampling, err error) {
	if w.batch != 1 {
		return nil, fmt.Errorf("--batch is %d with --model %s, want 1", w.batch, sampleName)
	}
	dtype, err := nn.ParseDType(w.dtype)
	if err != nil {
		return nil, fmt.Errorf("--dtype is %q, want float32 or bf16", w.dtype)
	}
	s = new(sampling)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.program, err = nn.Compile(nn.GPT(nn.IDs(gorgonia.NewGraph(), "tokens", 1, 1), gpt2), nn.Config{Inference: true, Threads: w.threads, DType: dtype}); err != nil {
		return s, err
	}
	s.decoder, err = generate.NewDecoder(generate.DecoderConfig{
		Share: s.program, Layers: gpt2.Layers, Positions: gpt2.Positions, DType: dtype,
		Build: func(tokens, first *gorgonia.Node, caches []*nn.KVCache) *gorgonia.Node {
			c := gpt2
			c.First, c.Cache = first, caches
			return nn.GPT(tokens, c)
		},
	})
	return s, err
}

// Step adds a token. A sequence that has become long begins anew, which is part of the step.
func (s *sampling) Step(ctx context.Context) error {
	tokens := make([]int32, 1)
	if n := s.decoder.Length(); n == 0 || n >= longest {
		s.decoder.Reset()
		tokens = make([]int32, prompt)
	}
	_, err := s.decoder.Add(ctx, tokens...)
	return err
}

func (s *sampling) plan() int64 { return s.program.Memory().Total() }

func (s *sampling) Close() (err error) {
	if s.decoder != nil {
		err = s.decoder.Close()
	}
	if s.program != nil {
		err = errors.Join(err, s.program.Close())
	}
	return err
}

// A reading reads as many bytes as GPT-2's parameters have, and does nothing else with them than to
// find the sums of its parts.
type reading struct {
	parts [][]float32
	sums  []float32
}

func newReading(w work) (*reading, error) {
	if w.batch != 1 || w.threads < 1 || w.dtype != "float32" {
		return nil, fmt.Errorf("--model %s has --batch %d, --threads %d and --dtype %s, want 1, at least 1 and float32", readName, w.batch, w.threads, w.dtype)
	}
	r := &reading{sums: make([]float32, w.threads)}
	n := gpt2.Parameters() / w.threads
	for range w.threads {
		part := make([]float32, n)
		for i := range part {
			part[i] = 1
		}
		r.parts = append(r.parts, part)
	}
	return r, nil
}

func (r *reading) Step(context.Context) error {
	var threads sync.WaitGroup
	for i, part := range r.parts {
		threads.Go(func() { r.sums[i] = f32.Sum(part) })
	}
	threads.Wait()
	return nil
}

func (r *reading) plan() int64 { return 4 * int64(len(r.parts)*len(r.parts[0])) }

func (r *reading) Close() error { return nil }
