package nn

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// AttentionConfig describes scaled dot-product attention (Vaswani et al., 2017).
type AttentionConfig struct {
	// Causal lets a query see its own position and those before. Queries are the last T of S
	// positions: query i sees keys 0 to i+S−T.
	Causal bool
	// Scale multiplies the products of queries and keys; 0 is 1/√D.
	Scale float64

	// Lengths (B), integers from 0 to S, leaves out keys from an example's length on; nil: all
	// count.
	Lengths *gorgonia.Node
	// Documents (B,S), integers, lets a query see keys of its own document alone, for sequences
	// that are packed one after the other; nil: all are one document.
	Documents *gorgonia.Node
	// Bias (B or 1, H or 1, T, S) is added to the scaled scores; −∞ leaves a key out. It has a
	// gradient. nil: none.
	Bias *gorgonia.Node
	// ALiBi adds slope_h·(key − query) to the scaled scores (Press et al., 2022), with the slopes
	// of the paper.
	ALiBi bool

	// Dropout is the rate at which attention's probabilities are dropped in training, in a node
	// called Name, as Dropout does with numbers. Name is needed where the rate is not 0.
	Dropout float64
	Name    string

	// Rotary turns queries and keys by their positions before they meet; nil: they stay.
	Rotary *RotaryConfig

	// Cache holds keys and values of positions before: for sampling, see KVCache. First (B),
	// integers such as IDs, is the position of the first query of each example, and the number of
	// positions that the cache holds of it. Both or none.
	Cache *KVCache
	First *gorgonia.Node
}

// A KVCache holds the keys and values that attention has seen, so that a program for sampling
// computes each position once. It belongs to one attention layer of a model and is state of the
// programs whose graphs name it: one for a prompt of T positions and one for T = 1, for example,
// which go on where the other stopped. Which positions of it are valid is said by AttentionConfig's
// First in each run: 0 begins again, and a smaller position than before goes back. Programs that
// share a cache run one at a time, and in inference alone. It is no part of a checkpoint.
type KVCache struct{ cache op.KVCache }

// NewKVCache makes a cache for so many positions. Its memory, 2·B·positions·Hk·D numbers, is made
// with the first graph that names it.
func NewKVCache(name string, positions int) *KVCache {
	if positions < 1 {
		panic(fmt.Sprintf("nn: KVCache %q: room for %d positions, want at least 1", name, positions))
	}
	return &KVCache{op.KVCache{Name: name, Positions: positions}}
}

// Attention is softmax(Scale·q·kᵀ + bias)·v over the keys that each query sees, from queries
// q (B,T,H,D) and keys and values k, v (B,S,Hk,D) to (B,T,H,D). Hk divides H: head h reads keys and
// values of head ⌊h·Hk/H⌋ (grouped queries, Ainslie et al., 2023). A query that sees no key gives 0.
// It is PyTorch's scaled_dot_product_attention with (B,T,H,D) in place of (B,H,T,D).
//
// It is computed in tiles that stay in the cache (FlashAttention-2, Dao, 2023): besides the result,
// a training step keeps one number for each query, and nothing of T×S.
func Attention(q, k, v *gorgonia.Node, cfg AttentionConfig) *gorgonia.Node {
	want("Attention", q, 4, "B,T,H,D")
	want("Attention", k, 4, "B,S,Hk,D")
	want("Attention", v, 4, "B,S,Hk,D")
	layer := cfg.layer("Attention")
	if cfg.Rotary != nil {
		q = cfg.Rotary.turn(layer, q, q.Shape()[2], k.Shape()[1]-q.Shape()[1], cfg.First)
		k = cfg.Rotary.turn(layer, k, k.Shape()[2], 0, cfg.First)
	}
	form := op.AttentionForm{Heads: q.Shape()[2], KVHeads: k.Shape()[2]}
	return cfg.attend(layer, form, q.Shape()[3], q, k, v)
}

// SelfAttention is Attention whose queries, keys and values lie side by side in the result of one
// projection: qkv (B,T,(heads+2·kvHeads)·D) has for each position the heads of queries, then those
// of keys, then those of values, D numbers each. The result is (B,T,heads·D). Nothing is copied out
// of qkv, and its gradient is one array. GPT-2's c_attn has this order, with kvHeads = heads.
func SelfAttention(qkv *gorgonia.Node, heads, kvHeads int, cfg AttentionConfig) *gorgonia.Node {
	layer := cfg.layer("SelfAttention")
	want(layer, qkv, 3, "B,T,(H+2·Hk)·D")
	if all := heads + 2*kvHeads; heads < 1 || kvHeads < 1 || qkv.Shape()[2]%all != 0 {
		panic(fmt.Sprintf("nn: %s: qkv is %v, and %d numbers are no %d heads of queries and 2·%d of keys and values", layer, qkv.Shape(), qkv.Shape()[2], heads, kvHeads))
	}
	size := qkv.Shape()[2] / (heads + 2*kvHeads)
	if cfg.Rotary != nil {
		apart := tensor.Shape{qkv.Shape()[0], qkv.Shape()[1], heads + 2*kvHeads, size}
		x := apply(layer, &op.Reshape{From: qkv.Shape(), To: apart}, qkv)
		x = cfg.Rotary.turn(layer, x, heads+kvHeads, 0, cfg.First)
		qkv = apply(layer, &op.Reshape{From: apart, To: qkv.Shape()}, x)
	}
	return cfg.attend(layer, op.AttentionForm{Heads: heads, KVHeads: kvHeads, Packed: true}, size, qkv)
}

// layer is what messages call it.
func (cfg *AttentionConfig) layer(kind string) string {
	if cfg.Name == "" {
		return kind
	}
	return fmt.Sprintf("%s %q", kind, cfg.Name)
}

// attend applies the op to q, k and v, or to the one array of all of them.
func (cfg *AttentionConfig) attend(layer string, form op.AttentionForm, size int, in ...*gorgonia.Node) *gorgonia.Node {
	form.Causal, form.ALiBi, form.Scale = cfg.Causal, cfg.ALiBi, cfg.Scale
	if form.Scale == 0 {
		form.Scale = 1 / math.Sqrt(float64(size))
	}
	if (cfg.Cache == nil) != (cfg.First == nil) {
		panic(fmt.Sprintf("nn: %s: a Cache needs First, the position of the first query, and First a Cache", layer))
	}
	if cfg.Cache != nil {
		return cfg.fromCache(layer, form, size, in)
	}
	for _, more := range []struct {
		node *gorgonia.Node
		is   *bool
	}{{cfg.Lengths, &form.Lengths}, {cfg.Documents, &form.Documents}, {cfg.Bias, &form.Bias}} {
		if *more.is = more.node != nil; *more.is {
			in = append(in, more.node)
		}
	}
	r := op.RegistryOf(in[0].Graph())
	o := &op.Attention{AttentionForm: form, Rate: cfg.Dropout, Mode: r.Mode}
	if cfg.Dropout != 0 {
		if err := r.Claim(cfg.Name); err != nil || cfg.Name == "" {
			panic(fmt.Sprintf("nn: %s: dropout at rate %g needs a Name that is new in the graph, got %q", layer, cfg.Dropout, cfg.Name))
		}
		o.Name, o.Seed = cfg.Name, r.Seed
	}
	n := apply(layer, o, in...)
	return apply(layer, &op.Take{Shape: n.Shape(), From: n.Shape().Dims()}, n)
}

func (cfg *AttentionConfig) fromCache(layer string, form op.AttentionForm, size int, in []*gorgonia.Node) *gorgonia.Node {
	if !cfg.Causal || cfg.Lengths != nil || cfg.Documents != nil || cfg.Bias != nil || cfg.Dropout != 0 {
		panic(fmt.Sprintf("nn: %s: attention with a Cache is Causal, and takes no Lengths, Documents, Bias and Dropout", layer))
	}
	c := &cfg.Cache.cache
	o := &op.CachedAttention{AttentionForm: form, Cache: c}
	if c.K == nil {
		shape := []int{in[0].Shape()[0], c.Positions, form.KVHeads, size}
		for _, t := range []**tensor.Dense{&c.K, &c.V} {
			*t = tensor.New(tensor.Of(floatType(in[0])), tensor.WithShape(shape...))
		}
	}
	return apply(layer, o, append(in, cfg.First)...)
}
