package generate

import (
	"context"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// DecoderConfig describes a Decoder.
type DecoderConfig struct {
	// Share is a program of the same model, such as that for training, whose parameters are
	// used as they are at each run.
	Share *nn.Program
	// Build builds the model over tokens (1,T), giving logits (1,T,V), as nn.GPT and nn.Llama do
	// with first as their First and caches as their Cache. It is called for two lengths T.
	Build func(tokens, first *gorgonia.Node, caches []*nn.KVCache) *gorgonia.Node
	// Layers is the number of caches, and Positions the longest sequence.
	Layers, Positions int
	// Chunk is how many tokens of a prompt are computed in one run; 0: 64, or Positions if that
	// is less.
	Chunk int
	// DType is the type of numbers; see nn.Config.
	DType nn.DType
}

// A Decoder runs a language model over a sequence that grows. Keys and values of positions before
// stay in caches, so that a token costs one position. One goroutine at a time may use it, and none
// may run a program that it shares with meanwhile.
type Decoder struct {
	cfg  DecoderConfig
	runs []*decoderRun // for Chunk tokens, and for one

	// past are the tokens whose keys and values are in the caches.
	past []int32
}

// A decoderRun is a program for some tokens.
type decoderRun struct {
	program       *nn.Program
	tokens, first nn.LabelInput
	logits        *gorgonia.Node
	length        int
}

// NewDecoder compiles the model for sampling.
func NewDecoder(cfg DecoderConfig) (*Decoder, error) {
	if cfg.Build == nil || cfg.Share == nil || cfg.Layers < 1 || cfg.Positions < 1 || cfg.Chunk < 0 || cfg.Chunk > cfg.Positions {
		return nil, fmt.Errorf("generate: decoder: want Share, Build, at least one layer and position, and a chunk of at most the positions; got %d layers, %d positions and a chunk of %d", cfg.Layers, cfg.Positions, cfg.Chunk)
	}
	if cfg.Chunk == 0 {
		cfg.Chunk = min(64, cfg.Positions)
	}
	d := &Decoder{cfg: cfg}
	caches := make([]*nn.KVCache, cfg.Layers)
	for i := range caches {
		caches[i] = nn.NewKVCache(fmt.Sprintf("cache.%d", i), cfg.Positions)
	}
	for _, length := range []int{cfg.Chunk, 1} {
		run, err := newRun(cfg, length, caches)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("generate: decoder for %d tokens: %w", length, err), d.Close())
		}
		d.runs = append(d.runs, run)
	}
	return d, nil
}

func newRun(cfg DecoderConfig, length int, caches []*nn.KVCache) (*decoderRun, error) {
	g := gorgonia.NewGraph()
	r := &decoderRun{length: length, logits: cfg.Build(nn.IDs(g, "tokens", 1, length), nn.IDs(g, "first", 1), caches)}
	var err error
	if r.program, err = nn.Compile(r.logits, nn.Config{Share: cfg.Share, Inference: true, DType: cfg.DType}); err != nil {
		return nil, err
	}
	if r.tokens, err = r.program.Labels("tokens"); err == nil {
		r.first, err = r.program.Labels("first")
	}
	if err != nil {
		return nil, errors.Join(err, r.program.Close())
	}
	return r, nil
}

// Add puts tokens behind the sequence and returns the logits of the token after them, which are
// valid until the next call. A sequence that becomes longer than there are positions loses its older
// half: what is left is computed again, from position 0 on.
func (d *Decoder) Add(ctx context.Context, tokens ...int32) (logits []float32, err error) {
	if len(tokens) == 0 {
		return nil, errors.New("generate: decoder: got no tokens, want at least one")
	}
	if all := append(d.past, tokens...); len(all) > d.cfg.Positions {
		keep := min((d.cfg.Positions+1)/2, len(all))
		d.past, tokens = nil, all[len(all)-keep:]
	}
	for len(tokens) > 0 {
		r := d.runs[1]
		if len(tokens) > 1 && len(d.past)+d.cfg.Chunk <= d.cfg.Positions {
			r = d.runs[0]
		}
		n := min(len(tokens), r.length)
		if logits, err = d.run(ctx, r, tokens[:n]); err != nil {
			return nil, err
		}
		d.past, tokens = append(d.past, tokens[:n]...), tokens[n:]
	}
	return logits, nil
}

// run computes some tokens. Positions behind them are computed from a token that is there; the next
// run writes over them.
func (d *Decoder) run(ctx context.Context, r *decoderRun, tokens []int32) ([]float32, error) {
	all := make([]int32, r.length)
	for i := range all {
		all[i] = tokens[min(i, len(tokens)-1)]
	}
	r.tokens.Set(all)
	r.first.Set([]int32{int32(len(d.past))})
	if err := r.program.Forward(ctx); err != nil {
		return nil, err
	}
	logits, err := r.program.Output(r.logits)
	if err != nil {
		return nil, err
	}
	width := len(logits) / r.length
	return logits[(len(tokens)-1)*width : len(tokens)*width], nil
}

// Length is the number of tokens of the sequence.
func (d *Decoder) Length() int { return len(d.past) }

// Reset begins a new sequence.
func (d *Decoder) Reset() { d.past = nil }

// Close closes the programs; that of Share stays.
func (d *Decoder) Close() (err error) {
	for _, r := range d.runs {
		err = errors.Join(err, r.program.Close())
	}
	return err
}
