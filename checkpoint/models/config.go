package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/paragon-train/paragon/internal/observe/shown"
)

// A Config is what a config.json says of a model: a *GPT2Config, a *LlamaConfig or a *ViTConfig.
type Config interface {
	// Model is the model's name, as Model.Name has it.
	Model() string
	// Check compares the sizes with the shapes of the model's parameters, by package nn's names.
	Check(shapes map[string][]int) error
	// Text is the config.json that Hugging Face's transformers read.
	Text() ([]byte, error)
}

// ReadConfig reads the text of a config.json of Hugging Face's. What package nn's models cannot do is
// an error that names it; fields that say nothing of what a model computes are not looked at.
func ReadConfig(text []byte) (Config, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	r := &reader{all: all}
	if r.has("quantization_config") {
		return nil, errors.New("quantization_config: the weights are quantized, want floating-point numbers")
	}
	kind := r.text("model_type", "")
	kinds := map[string]func(*reader) Config{"gpt2": readGPT2, "llama": readLlama, "vit": readViT}
	read := kinds[kind]
	if r.err == nil && read == nil {
		return nil, fmt.Errorf("model_type: got %s, want one of %q", shown.Name(kind), slices.Sorted(maps.Keys(kinds)))
	}
	if r.err != nil {
		return nil, r.err
	}
	c := read(r)
	if r.err != nil {
		return nil, fmt.Errorf("a model of type %s: %w", kind, r.err)
	}
	return c, nil
}

// GPT2Config describes a GPT-2, as nn.GPTConfig does.
type GPT2Config struct {
	Layers, Heads, Width, Positions, Vocabulary int
	Dropout                                     float64
	// Activation is "tanh" or "none", as nn.GELU has them.
	Activation string
	Epsilon    float64

	// raw are all fields of the file that it was read from; nil: none.
	raw map[string]json.RawMessage
}

func readGPT2(r *reader) Config {
	c := &GPT2Config{
		Layers: r.size("n_layer", 12), Heads: r.size("n_head", 12), Width: r.size("n_embd", 768),
		Positions: r.size("n_positions", 1024), Vocabulary: r.size("vocab_size", 50257),
		Epsilon: r.positive("layer_norm_epsilon", 1e-5), Dropout: r.rate("resid_pdrop", 0.1), raw: r.all,
	}
	for _, other := range []string{"embd_pdrop", "attn_pdrop"} {
		if rate := r.rate(other, 0.1); rate != c.Dropout {
			r.fail(fmt.Errorf("%s: got %g, want the %g of resid_pdrop: there is one rate for all", other, rate, c.Dropout))
		}
	}
	switch activation := r.text("activation_function", "gelu_new"); activation {
	case "gelu_new", "gelu_pytorch_tanh", "gelu_fast":
		c.Activation = "tanh"
	case "gelu":
		c.Activation = "none"
	default:
		r.fail(fmt.Errorf("activation_function: got %s, want gelu_new, gelu_pytorch_tanh, gelu_fast or gelu", shown.Name(activation)))
	}
	if r.has("n_inner") {
		if inner := r.size("n_inner", 0); inner != 4*c.Width {
			r.fail(fmt.Errorf("n_inner: got %d, want null or %d, four times n_embd", inner, 4*c.Width))
		}
	}
	for _, field := range []string{"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"} {
		r.want(field, false, false)
	}
	r.want("scale_attn_weights", true, true)
	r.want("tie_word_embeddings", true, true)
	r.divides("n_head", c.Heads, "n_embd", c.Width)
	return c
}

// Model returns the model's name.
func (c *GPT2Config) Model() string { return "GPT-2" }

// Check compares the sizes with those of parameters.
func (c *GPT2Config) Check(shapes map[string][]int) error {
	return errors.Join(
		sized(shapes, "transformer.wte.weight", "vocab_size and n_embd", c.Vocabulary, c.Width),
		sized(shapes, "transformer.wpe.weight", "n_positions and n_embd", c.Positions, c.Width),
		layered(shapes, "transformer.h.%d.ln_1.weight", "n_layer", c.Layers),
	)
}

// Text is the config.json that Hugging Face's transformers read.
func (c *GPT2Config) Text() ([]byte, error) {
	activation := "gelu_new"
	if c.Activation == "none" {
		activation = "gelu"
	}
	return marshal(c.raw, map[string]any{
		"model_type": "gpt2", "architectures": []string{"GPT2LMHeadModel"}, "n_layer": c.Layers, "n_head": c.Heads, "n_embd": c.Width, "n_inner": nil,
		"n_positions": c.Positions, "n_ctx": c.Positions, "vocab_size": c.Vocabulary, "activation_function": activation, "layer_norm_epsilon": c.Epsilon,
		"resid_pdrop": c.Dropout, "embd_pdrop": c.Dropout, "attn_pdrop": c.Dropout, "initializer_range": 0.02, "tie_word_embeddings": true,
		// Beyond the vocabulary there is no such token.
		"bos_token_id": tokenWithin(50256, c.Vocabulary), "eos_token_id": tokenWithin(50256, c.Vocabulary),
	})
}

// tokenWithin is a special token of the model's published vocabulary, or nil where that is another.
func tokenWithin(token, vocabulary int) any {
	if token >= vocabulary {
		return nil
	}
	return token
}

// LlamaConfig describes a Llama, as nn.LlamaConfig does.
type LlamaConfig struct {
	Layers, Heads, KVHeads, Width, HeadSize, Inner, Vocabulary int
	Positions                                                  int
	Epsilon                                                    float64
	Tied                                                       bool
	// RotaryBase is the base of rotary frequencies, and Rotated how many numbers of a head are
	// turned.
	RotaryBase float64
	Rotated    int
	// Scaling is nil if there is none.
	Scaling *RotaryScaling

	raw map[string]json.RawMessage
}

// RotaryScaling is nn.RotaryScaling: Original 0 divides all frequencies by Factor.
type RotaryScaling struct {
	Factor, Low, High float64
	Original          int
}

func readLlama(r *reader) Config {
	c := &LlamaConfig{
		Layers: r.size("num_hidden_layers", 32), Heads: r.size("num_attention_heads", 32), Width: r.size("hidden_size", 4096), Inner: r.size("intermediate_size", 11008),
		Vocabulary: r.size("vocab_size", 32000), Positions: r.size("max_position_embeddings", 2048), Epsilon: r.positive("rms_norm_eps", 1e-6),
		Tied: r.flag("tie_word_embeddings", false), raw: r.all,
	}
	c.KVHeads = r.size("num_key_value_heads", c.Heads)
	if r.divides("num_key_value_heads", c.KVHeads, "num_attention_heads", c.Heads); !r.has("head_dim") {
		r.divides("num_attention_heads", c.Heads, "hidden_size", c.Width)
	}
	c.HeadSize = r.size("head_dim", max(c.Width/max(c.Heads, 1), 1))
	r.want("attention_bias", false, false)
	r.want("mlp_bias", false, false)
	if activation := r.text("hidden_act", "silu"); activation != "silu" {
		r.fail(fmt.Errorf("hidden_act: got %s, want silu", shown.Name(activation)))
	}
	rope := r
	if r.has("rope_parameters") {
		rope = r.object("rope_parameters")
	}
	c.RotaryBase = rope.positive("rope_theta", r.positive("rope_theta", 10000))
	factor := rope.positive("partial_rotary_factor", r.positive("partial_rotary_factor", 1))
	c.Rotated = int(float64(c.HeadSize) * min(factor, 1))
	if factor > 1 || c.Rotated < 2 || c.Rotated%2 != 0 {
		r.fail(fmt.Errorf("heads of %d of which %g are turned by their positions, want an even number of them", c.HeadSize, factor))
	}
	if rope == r {
		rope = r.object("rope_scaling")
	}
	c.Scaling = readScaling(rope)
	r.fail(rope.err)
	return c
}

// readScaling reads rope_scaling, or rope_parameters from version 5 on.
func readScaling(r *reader) *RotaryScaling {
	switch kind := r.text("rope_type", r.text("type", "default")); kind {
	case "default":
		return nil
	case "linear":
		return &RotaryScaling{Factor: r.positive("factor", 0)}
	case "llama3":
		return &RotaryScaling{
			Factor: r.positive("factor", 0), Low: r.positive("low_freq_factor", 0), High: r.positive("high_freq_factor", 0),
			Original: r.size("original_max_position_embeddings", 0),
		}
	default:
		r.fail(fmt.Errorf("rope_type: got %s, want default, linear or llama3", shown.Name(kind)))
		return nil
	}
}

// Model returns the model's name.
func (c *LlamaConfig) Model() string { return "Llama" }

// Check compares the sizes with those of parameters.
func (c *LlamaConfig) Check(shapes map[string][]int) error {
	const block = "model.layers.0."
	tied := error(nil)
	if head := shapes["lm_head.weight"]; (head == nil) != c.Tied {
		tied = fmt.Errorf("tie_word_embeddings is %v, and the model's lm_head.weight has shape %v", c.Tied, head)
	}
	return errors.Join(
		sized(shapes, "model.embed_tokens.weight", "vocab_size and hidden_size", c.Vocabulary, c.Width),
		sized(shapes, block+"self_attn.q_proj.weight", "num_attention_heads · head_dim and hidden_size", c.Heads*c.HeadSize, c.Width),
		sized(shapes, block+"self_attn.k_proj.weight", "num_key_value_heads · head_dim and hidden_size", c.KVHeads*c.HeadSize, c.Width),
		sized(shapes, block+"mlp.gate_proj.weight", "intermediate_size and hidden_size", c.Inner, c.Width),
		layered(shapes, "model.layers.%d.input_layernorm.weight", "num_hidden_layers", c.Layers), tied,
	)
}

// Text is the config.json that Hugging Face's transformers read.
func (c *LlamaConfig) Text() ([]byte, error) {
	scaling := any(nil)
	if s := c.Scaling; s != nil && s.Original == 0 {
		scaling = map[string]any{"rope_type": "linear", "factor": s.Factor}
	} else if s != nil {
		scaling = map[string]any{"rope_type": "llama3", "factor": s.Factor, "low_freq_factor": s.Low, "high_freq_factor": s.High, "original_max_position_embeddings": s.Original}
	}
	fields := map[string]any{
		"model_type": "llama", "architectures": []string{"LlamaForCausalLM"}, "num_hidden_layers": c.Layers, "num_attention_heads": c.Heads, "num_key_value_heads": c.KVHeads,
		"hidden_size": c.Width, "head_dim": c.HeadSize, "intermediate_size": c.Inner, "vocab_size": c.Vocabulary, "max_position_embeddings": c.Positions,
		"rms_norm_eps": c.Epsilon, "tie_word_embeddings": c.Tied, "rope_theta": c.RotaryBase, "rope_scaling": scaling,
		"attention_bias": false, "mlp_bias": false, "hidden_act": "silu", "initializer_range": 0.02,
	}
	if c.Rotated != c.HeadSize {
		fields["partial_rotary_factor"] = float64(c.Rotated) / float64(c.HeadSize)
	}
	return marshal(c.raw, fields)
}

// ViTConfig describes a vision transformer, as nn.ViTConfig does.
type ViTConfig struct {
	Layers, Heads, Width, Inner, Patch, Classes int
	// Image is the height and width of images, and Channels how many they have.
	Image, Channels  int
	Dropout, Epsilon float64

	raw map[string]json.RawMessage
}

func readViT(r *reader) Config {
	c := &ViTConfig{
		Layers: r.size("num_hidden_layers", 12), Heads: r.size("num_attention_heads", 12), Width: r.size("hidden_size", 768), Inner: r.size("intermediate_size", 3072),
		Patch: r.size("patch_size", 16), Image: r.size("image_size", 224), Channels: r.size("num_channels", 3), Classes: 2,
		Dropout: r.rate("hidden_dropout_prob", 0), Epsilon: r.positive("layer_norm_eps", 1e-12), raw: r.all,
	}
	if r.has("id2label") {
		c.Classes = len(r.object("id2label").all)
	}
	if rate := r.rate("attention_probs_dropout_prob", 0); rate != 0 {
		r.fail(fmt.Errorf("attention_probs_dropout_prob: got %g, want 0", rate))
	}
	if activation := r.text("hidden_act", "gelu"); activation != "gelu" {
		r.fail(fmt.Errorf("hidden_act: got %s, want gelu", shown.Name(activation)))
	}
	r.want("qkv_bias", true, true)
	r.divides("num_attention_heads", c.Heads, "hidden_size", c.Width)
	r.divides("patch_size", c.Patch, "image_size", c.Image)
	return c
}

// Model returns the model's name.
func (c *ViTConfig) Model() string { return "ViT" }

// Check compares the sizes with those of parameters.
func (c *ViTConfig) Check(shapes map[string][]int) error {
	side := c.Image / max(c.Patch, 1)
	return errors.Join(
		sized(shapes, "conv_proj.weight", "hidden_size, num_channels and patch_size", c.Width, c.Channels, c.Patch, c.Patch),
		sized(shapes, "encoder.pos_embedding", "a class token, (image_size/patch_size)² patches and hidden_size", 1, 1+side*side, c.Width),
		sized(shapes, "encoder.layers.encoder_layer_0.mlp.0.weight", "intermediate_size and hidden_size", c.Inner, c.Width),
		sized(shapes, "heads.head.weight", "the number of labels and hidden_size", c.Classes, c.Width),
		layered(shapes, "encoder.layers.encoder_layer_%d.ln_1.weight", "num_hidden_layers", c.Layers),
	)
}

// Text is the config.json that Hugging Face's transformers read.
func (c *ViTConfig) Text() ([]byte, error) {
	labels, ids := map[string]string{}, map[string]int{}
	for i := range c.Classes {
		name := fmt.Sprintf("LABEL_%d", i)
		labels[fmt.Sprint(i)], ids[name] = name, i
	}
	return marshal(c.raw, map[string]any{
		"model_type": "vit", "architectures": []string{"ViTForImageClassification"}, "num_hidden_layers": c.Layers, "num_attention_heads": c.Heads, "hidden_size": c.Width,
		"intermediate_size": c.Inner, "patch_size": c.Patch, "image_size": c.Image, "num_channels": c.Channels, "id2label": labels, "label2id": ids,
		"hidden_dropout_prob": c.Dropout, "attention_probs_dropout_prob": 0, "layer_norm_eps": c.Epsilon, "hidden_act": "gelu", "qkv_bias": true, "initializer_range": 0.02,
	})
}
