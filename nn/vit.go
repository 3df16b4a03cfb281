package nn

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
)

// ViTConfig describes a vision transformer (Dosovitskiy and others, 2021). ViT-B/16 is
//
//	ViTConfig{Layers: 12, Heads: 12, Width: 768, Patch: 16, Classes: 1000}
type ViTConfig struct {
	// Layers is the number of blocks, Heads that of attention heads, which divides Width, the
	// size of what goes from block to block.
	Layers, Heads, Width int
	// Inner is the width of the feed-forward block's middle; 0: 4·Width.
	Inner int
	// Patch is the height and width of a patch, which divides those of an image.
	Patch int
	// Classes is the number of logits.
	Classes int
	// Dropout is the rate behind positions and in each branch; 0: none.
	Dropout float64
	// Epsilon is that of normalisations; 0: 1e-6, as in torchvision and timm.
	Epsilon float64
}

func (c *ViTConfig) check(images *gorgonia.Node) {
	want("ViT", images, 4, "N,C,H,W")
	if c.Layers < 1 || c.Heads < 1 || c.Width < 1 || c.Inner < 0 || c.Patch < 1 || c.Classes < 1 {
		panic(fmt.Sprintf("nn: ViT: %d layers, %d heads, width %d, inner width %d, patches of %d, %d classes, want at least 1 of each", c.Layers, c.Heads, c.Width, c.Inner, c.Patch, c.Classes))
	}
	s := images.Shape()
	switch {
	case c.Width%c.Heads != 0:
		panic(fmt.Sprintf("nn: ViT: the width is %d and there are %d heads, want heads that divide the width", c.Width, c.Heads))
	case s[2]%c.Patch != 0 || s[3]%c.Patch != 0:
		panic(fmt.Sprintf("nn: ViT: images are %v and patches %d×%d, want patches that divide height and width", s, c.Patch, c.Patch))
	}
	if c.Inner == 0 {
		c.Inner = 4 * c.Width
	}
	if c.Epsilon == 0 {
		c.Epsilon = 1e-6
	}
}

// Parameters is the number of parameters for images of so many channels, rows and columns.
func (c ViTConfig) Parameters(channels, height, width int) int {
	if c.Inner == 0 {
		c.Inner = 4 * c.Width
	}
	tokens := 1 + height/c.Patch*(width/c.Patch)
	block := 4*c.Width*c.Width + 4*c.Width + 2*c.Width*c.Inner + c.Inner + c.Width + 4*c.Width
	return c.Width*channels*c.Patch*c.Patch + 2*c.Width + tokens*c.Width + c.Layers*block + 2*c.Width + c.Classes*(c.Width+1)
}

// ViT is a vision transformer over images (N,C,H,W), giving logits (N,Classes): a row for each patch
// and a class token in front, learned positions, blocks of attention and of a feed-forward layer with
// exact GELU, each with a layer normalisation in front, and a linear layer over the class token.
//
// Names, layout and initial values are torchvision's: class_token, conv_proj,
// encoder.pos_embedding, encoder.layers.encoder_layer_0.ln_1, .self_attention.in_proj_weight,
// .in_proj_bias, .out_proj, .ln_2, .mlp.0, .mlp.3, encoder.ln and heads.head, which starts at 0.
func ViT(images *gorgonia.Node, cfg ViTConfig) *gorgonia.Node {
	cfg.check(images)
	s := images.Shape()
	patch := Square(cfg.Patch)
	x := Conv2D(images, "conv_proj", Conv2DConfig{Filters: cfg.Width, Kernel: patch, Stride: patch, Bias: true, Init: Normal(math.Sqrt(1 / float64(s[1]*cfg.Patch*cfg.Patch)))})
	rows := s[2] / cfg.Patch * (s[3] / cfg.Patch)
	x = Permute(Reshape(x, s[0], cfg.Width, rows), 0, 2, 1)
	x = apply("ViT", &op.ClassToken{}, x, newParameter(x, "class_token", Zeros(), 1, 1, cfg.Width))
	positions := newParameter(x, "encoder.pos_embedding", Normal(0.02), 1, 1+rows, cfg.Width)
	x = apply("ViT", &op.Positions{}, x, Reshape(positions, 1+rows, cfg.Width))
	x = cfg.drop(x, "encoder.dropout")
	for i := range cfg.Layers {
		x = cfg.block(x, fmt.Sprintf("encoder.layers.encoder_layer_%d", i))
	}
	// Each row is normalised alone, so that of the class token is enough.
	x = Reshape(Slice(x, 1, 0, 1), s[0], cfg.Width)
	x = LayerNorm(x, "encoder.ln", LayerNormConfig{Epsilon: cfg.Epsilon})
	return Linear(x, "heads.head", LinearConfig{Out: cfg.Classes, Init: Zeros()})
}

func (c *ViTConfig) block(x *gorgonia.Node, name string) *gorgonia.Node {
	norm := LayerNormConfig{Epsilon: c.Epsilon}
	y := LayerNorm(x, name+".ln_1", norm)
	y = Linear(y, name+".self_attention.in_proj", LinearConfig{Out: 3 * c.Width, underscore: true})
	y = SelfAttention(y, c.Heads, c.Heads, AttentionConfig{Name: name + ".self_attention"})
	y = Linear(y, name+".self_attention.out_proj", LinearConfig{Out: c.Width, Init: Uniform(1 / math.Sqrt(float64(c.Width)))})
	x = Add(x, c.drop(y, name+".dropout"))
	y = LayerNorm(x, name+".ln_2", norm)
	y = GELU(Linear(y, name+".mlp.0", LinearConfig{Out: c.Inner, biasInit: Normal(1e-6)}), "none")
	y = Linear(c.drop(y, name+".mlp.2"), name+".mlp.3", LinearConfig{Out: c.Width, biasInit: Normal(1e-6)})
	return Add(x, c.drop(y, name+".mlp.4"))
}

func (c *ViTConfig) drop(x *gorgonia.Node, name string) *gorgonia.Node {
	if c.Dropout == 0 {
		return x
	}
	return Dropout(x, name, c.Dropout)
}
