package nn

import (
	"fmt"

	"gorgonia.org/gorgonia"
)

// LlamaConfig describes a Llama (Touvron and others, 2023). Llama 3.2 of 1.24 billion parameters is
//
//	LlamaConfig{
//		Layers: 16, Heads: 32, KVHeads: 8, Width: 2048, Inner: 8192, Vocabulary: 128256, Tied: true,
//		Rotary: RotaryConfig{Base: 500000, Scaling: &RotaryScaling{Factor: 32, Original: 8192}},
//	}
type LlamaConfig struct {
	// Layers is the number of blocks, Heads that of query heads and KVHeads that of heads of keys
	// and values, which divides Heads; 0: Heads.
	Layers, Heads, KVHeads int
	// Width is the size of what goes from block to block, HeadSize that of a head; 0: Width/Heads.
	Width, HeadSize int
	// Inner is the width of the feed-forward block's middle, and Vocabulary the number of tokens.
	Inner, Vocabulary int
	// Positions is the longest sequence; 0: any.
	Positions int
	// Rotary is how positions turn queries and keys. The zero value is Llama 1's and 2's.
	Rotary RotaryConfig
	// Epsilon is that of normalisations; 0: 1e-5, as in Llama 2 and 3.
	Epsilon float64
	// Tied shares the embeddings' table with the head, which then has no parameter.
	Tied bool

	// Cache has a cache for each block, and First (B), integers such as IDs, the position of each
	// example's first token, for sampling in programs for inference; see KVCache. nil: none.
	Cache []*KVCache
	First *gorgonia.Node
}

func (c *LlamaConfig) check(tokens *gorgonia.Node) {
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	if c.Layers < 1 || c.Heads < 1 || c.KVHeads < 1 || c.Width < 1 || c.Inner < 1 || c.Vocabulary < 1 {
		panic(fmt.Sprintf("nn: Llama: %d layers, %d and %d heads, width %d, inner width %d, %d tokens, want at least 1 of each", c.Layers, c.Heads, c.KVHeads, c.Width, c.Inner, c.Vocabulary))
	}
	if c.HeadSize == 0 && c.Width%c.Heads == 0 {
		c.HeadSize = c.Width / c.Heads
	}
	switch {
	case c.HeadSize < 1:
		panic(fmt.Sprintf("nn: Llama: the width is %d and there are %d heads, want heads that divide the width, or a HeadSize", c.Width, c.Heads))
	case c.Heads%c.KVHeads != 0:
		panic(fmt.Sprintf("nn: Llama: %d heads over %d of keys and values, want a number that divides the heads", c.Heads, c.KVHeads))
	case c.Cache != nil && len(c.Cache) != c.Layers:
		panic(fmt.Sprintf("nn: Llama: %d caches for %d layers, want one for each", len(c.Cache), c.Layers))
	}
	want("Llama", tokens, 2, "B,T")
	if t := tokens.Shape()[1]; c.Positions > 0 && t > c.Positions {
		panic(fmt.Sprintf("nn: Llama: sequences of %d tokens, want at most the %d positions that there are", t, c.Positions))
	}
}

// Parameters is the number of parameters.
func (c LlamaConfig) Parameters() int {
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	if c.HeadSize == 0 && c.Heads > 0 {
		c.HeadSize = c.Width / c.Heads
	}
	attention := 2 * c.Width * c.HeadSize * (c.Heads + c.KVHeads)
	n := c.Vocabulary*c.Width + c.Layers*(attention+3*c.Width*c.Inner+2*c.Width) + c.Width
	if !c.Tied {
		n += c.Vocabulary * c.Width
	}
	return n
}

// Llama is a Llama over tokens (B,T), giving logits (B,T,Vocabulary): embeddings, blocks of causal
// attention with rotary positions and grouped queries and of a SwiGLU, each with an RMSNorm in
// front, and a head. There are no biases.
//
// Parameters have Hugging Face's names and layout: model.embed_tokens.weight,
// model.layers.0.input_layernorm.weight, .self_attn.q_proj, .k_proj, .v_proj, .o_proj,
// .post_attention_layernorm, .mlp.gate_proj, .up_proj, .down_proj, model.norm and, if not Tied,
// lm_head. Weights start as N(0,0.02).
func Llama(tokens *gorgonia.Node, cfg LlamaConfig) *gorgonia.Node {
	x := llamaStates(tokens, &cfg)
	if cfg.Tied {
		return TiedLinear(x, "model.embed_tokens.weight")
	}
	return cfg.linear(x, "lm_head", cfg.Vocabulary)
}

// LlamaLoss is SequenceCrossEntropy(Llama(tokens, cfg), labels, loss), with the head in the loss: see
// TiedCrossEntropy. It has the parameters of Llama and gives no logits.
func LlamaLoss(tokens, labels *gorgonia.Node, cfg LlamaConfig, loss CrossEntropyConfig) *gorgonia.Node {
	x, head := llamaStates(tokens, &cfg), "model.embed_tokens.weight"
	if !cfg.Tied {
		head = "lm_head.weight"
		newParameter(x, head, Normal(0.02), cfg.Vocabulary, cfg.Width)
	}
	return TiedCrossEntropy(x, head, labels, loss)
}

// llamaStates is what the head is given, (B,T,Width).
func llamaStates(tokens *gorgonia.Node, cfg *LlamaConfig) *gorgonia.Node {
	cfg.check(tokens)
	x := Embedding(tokens, "model.embed_tokens", EmbeddingConfig{Rows: cfg.Vocabulary, Dim: cfg.Width, Init: Normal(0.02)})
	for i := range cfg.Layers {
		x = cfg.block(x, i)
	}
	return cfg.norm(x, "model.norm")
}

func (c *LlamaConfig) block(x *gorgonia.Node, i int) *gorgonia.Node {
	name := fmt.Sprintf("model.layers.%d", i)
	y := c.norm(x, name+".input_layernorm")
	b, t := x.Shape()[0], x.Shape()[1]
	heads := func(part string, n int) *gorgonia.Node {
		return Reshape(c.linear(y, name+".self_attn."+part, n*c.HeadSize), b, t, n, c.HeadSize)
	}
	attention := AttentionConfig{Causal: true, Rotary: &c.Rotary, Name: name + ".self_attn"}
	if c.Cache != nil {
		attention.Cache, attention.First = c.Cache[i], c.First
	}
	o := Attention(heads("q_proj", c.Heads), heads("k_proj", c.KVHeads), heads("v_proj", c.KVHeads), attention)
	o = Reshape(o, b, t, c.Heads*c.HeadSize)
	x = Add(x, c.linear(o, name+".self_attn.o_proj", c.Width))
	y = c.norm(x, name+".post_attention_layernorm")
	y = SwiGLU(c.linear(y, name+".mlp.gate_proj", c.Inner), c.linear(y, name+".mlp.up_proj", c.Inner))
	return Add(x, c.linear(y, name+".mlp.down_proj", c.Width))
}

func (c *LlamaConfig) linear(x *gorgonia.Node, name string, out int) *gorgonia.Node {
	return Linear(x, name, LinearConfig{Out: out, NoBias: true, Init: Normal(0.02)})
}

func (c *LlamaConfig) norm(x *gorgonia.Node, name string) *gorgonia.Node {
	return RMSNorm(x, name, RMSNormConfig{Epsilon: c.Epsilon})
}
