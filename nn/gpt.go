package nn

import (
	"fmt"
	"math"

	"gorgonia.org/gorgonia"
)

// GPTConfig describes a GPT-2 (Radford and others, 2019). GPT-2 of 124 million parameters is
//
//	GPTConfig{Layers: 12, Heads: 12, Width: 768, Positions: 1024, Vocabulary: 50257}
type GPTConfig struct {
	// Layers is the number of blocks, Heads that of attention heads, which divides Width, the
	// size of what goes from block to block.
	Layers, Heads, Width int
	// Positions is the longest sequence, and Vocabulary the number of tokens.
	Positions, Vocabulary int
	// Dropout is the rate behind embeddings, in attention and behind each branch; 0: none. GPT-2
	// was trained with 0.1.
	Dropout float64
	// NoBias leaves out the biases of linear layers and normalisations, as nanoGPT's own models.
	NoBias bool
	// Activation is GELU's approximation: "tanh", also where it is empty, is GPT-2's; "none" is
	// that of models that nanoGPT trains from scratch.
	Activation string
	// Epsilon is that of normalisations; 0: 1e-5.
	Epsilon float64

	// Cache has a cache for each block, and First (B), integers such as IDs, the position of each
	// example's first token, for sampling in programs for inference; see KVCache. nil: none.
	Cache []*KVCache
	First *gorgonia.Node
}

func (c *GPTConfig) check() {
	switch {
	case c.Layers < 1 || c.Heads < 1 || c.Width < 1 || c.Positions < 1 || c.Vocabulary < 1:
		panic(fmt.Sprintf("nn: GPT: %d layers, %d heads, width %d, %d positions, %d tokens, want at least 1 of each", c.Layers, c.Heads, c.Width, c.Positions, c.Vocabulary))
	case c.Width%c.Heads != 0:
		panic(fmt.Sprintf("nn: GPT: the width is %d and there are %d heads, want heads that divide the width", c.Width, c.Heads))
	case c.Cache != nil && len(c.Cache) != c.Layers:
		panic(fmt.Sprintf("nn: GPT: %d caches for %d layers, want one for each", len(c.Cache), c.Layers))
	}
	if c.Activation == "" {
		c.Activation = "tanh"
	}
}

// Parameters is the number of parameters, those of the tied table counted once.
func (c GPTConfig) Parameters() int {
	n := c.Vocabulary*c.Width + c.Positions*c.Width + c.Layers*(12*c.Width*c.Width+2*c.Width) + c.Width
	if !c.NoBias {
		n += c.Layers*11*c.Width + c.Width
	}
	return n
}

// GPT is a GPT-2 over tokens (B,T), giving logits (B,T,Vocabulary): embeddings of tokens and
// positions, blocks of causal attention and of a feed-forward layer four times as wide, each with a
// layer normalisation in front, and a head that shares the embeddings' table.
//
// Parameters have nanoGPT's names and PyTorch's layout, (out,in), where Hugging Face's files have
// some of them transposed: transformer.wte.weight, transformer.wpe.weight,
// transformer.h.0.ln_1.weight, .attn.c_attn, .attn.c_proj, .ln_2, .mlp.c_fc, .mlp.c_proj, and
// transformer.ln_f. Weights start as N(0,0.02), those of both c_proj, which add to what they are
// given, as N(0,0.02/√(2·Layers)), biases at 0.
func GPT(tokens *gorgonia.Node, cfg GPTConfig) *gorgonia.Node {
	return TiedLinear(gptStates(tokens, cfg), gptTable)
}

// GPTLoss is SequenceCrossEntropy(GPT(tokens, cfg), labels, loss), with the head in the loss: see
// TiedCrossEntropy. It has the parameters of GPT and gives no logits.
func GPTLoss(tokens, labels *gorgonia.Node, cfg GPTConfig, loss CrossEntropyConfig) *gorgonia.Node {
	return TiedCrossEntropy(gptStates(tokens, cfg), gptTable, labels, loss)
}

const gptTable = "transformer.wte.weight"

// gptStates is what the head is given, (B,T,Width).
func gptStates(tokens *gorgonia.Node, cfg GPTConfig) *gorgonia.Node {
	cfg.check()
	want("GPT", tokens, 2, "B,T")
	x := Embedding(tokens, "transformer.wte", EmbeddingConfig{Rows: cfg.Vocabulary, Dim: cfg.Width, Init: Normal(0.02)})
	x = Positions(x, "transformer.wpe", PositionsConfig{Rows: cfg.Positions, Firsts: cfg.First})
	x = cfg.drop(x, "transformer.drop")
	for i := range cfg.Layers {
		x = cfg.block(x, i)
	}
	return cfg.norm(x, "transformer.ln_f")
}

// block is x + c_proj(attention(c_attn(ln_1(x)))), and of that, x + c_proj(gelu(c_fc(ln_2(x)))).
func (c *GPTConfig) block(x *gorgonia.Node, i int) *gorgonia.Node {
	name := fmt.Sprintf("transformer.h.%d", i)
	attention := AttentionConfig{Causal: true, Dropout: c.Dropout, Name: name + ".attn.attn_dropout"}
	if c.Cache != nil {
		attention.Cache, attention.First, attention.Dropout = c.Cache[i], c.First, 0
	}
	y := c.linear(c.norm(x, name+".ln_1"), name+".attn.c_attn", 3*c.Width, 0.02)
	y = SelfAttention(y, c.Heads, c.Heads, attention)
	y = c.linear(y, name+".attn.c_proj", c.Width, 0.02/math.Sqrt(float64(2*c.Layers)))
	x = Add(x, c.drop(y, name+".attn.resid_dropout"))
	y = c.linear(c.norm(x, name+".ln_2"), name+".mlp.c_fc", 4*c.Width, 0.02)
	y = c.linear(GELU(y, c.Activation), name+".mlp.c_proj", c.Width, 0.02/math.Sqrt(float64(2*c.Layers)))
	return Add(x, c.drop(y, name+".mlp.dropout"))
}

func (c *GPTConfig) linear(x *gorgonia.Node, name string, out int, deviation float64) *gorgonia.Node {
	return Linear(x, name, LinearConfig{Out: out, NoBias: c.NoBias, Init: Normal(deviation)})
}

func (c *GPTConfig) norm(x *gorgonia.Node, name string) *gorgonia.Node {
	return LayerNorm(x, name, LayerNormConfig{Epsilon: c.Epsilon, NoBias: c.NoBias})
}

func (c *GPTConfig) drop(x *gorgonia.Node, name string) *gorgonia.Node {
	if c.Dropout == 0 {
		return x
	}
	return Dropout(x, name, c.Dropout)
}
