package nn

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/op"
	"gorgonia.org/gorgonia"
)

// RotaryConfig describes rotary positions (Su et al., 2021, RoFormer). The zero value is that of
// Llama 1 and 2 in Hugging Face's files.
type RotaryConfig struct {
	// Base is the base of frequencies; 0 is 10000. Llama 3 has 500000.
	Base float64
	// Size is how many numbers of each head are turned, the first ones, an even number; 0: all.
	// GPT-NeoX turns a quarter.
	Size int
	// Interleaved pairs x[2j] with x[2j+1] (GPT-J, Llama in Meta's files). False pairs x[j] with
	// x[j+Size/2] (GPT-NeoX, Llama in Hugging Face's files).
	Interleaved bool
	// First is the position of the first row.
	First int
	// Scaling stretches positions for longer texts than a model was first trained on; nil: none.
	Scaling *RotaryScaling
}

// RotaryScaling is that of Llama 3.1: frequencies f whose wavelength 2π/f is below Original/High stay,
// those with one above Original/Low are divided by Factor, and those between are mixed.
type RotaryScaling struct {
	// Factor is by how much positions are stretched, above 0. Llama 3.1 has 8.
	Factor float64
	// Low and High bound the wavelengths that are mixed; 0 are Llama 3.1's 1 and 4.
	Low, High float64
	// Original is the length that the model was first trained on; 0 divides all frequencies
	// ("linear" in Hugging Face's files). Llama 3.1 has 8192.
	Original int
}

// Rotary turns pairs of numbers of each head of x (B,T,H,D) by angles that grow with the position:
// pair j at position p by p·Base^(−2j/Size). It is for queries and keys, after their projection;
// AttentionConfig.Rotary does it to both. Sines and cosines are computed in float64.
func Rotary(x *gorgonia.Node, cfg RotaryConfig) *gorgonia.Node {
	want("Rotary", x, 4, "B,T,H,D")
	return cfg.turn("Rotary", x, x.Shape()[2], 0, nil)
}

// turn turns the first heads of x (B,T,N,D). Its rows begin at position First+skip, or at those that
// the node first gives.
func (cfg *RotaryConfig) turn(layer string, x *gorgonia.Node, heads, skip int, first *gorgonia.Node) *gorgonia.Node {
	r := op.Rotation{Base: cfg.Base, Size: cfg.Size, Interleaved: cfg.Interleaved, First: cfg.First + skip}
	if r.Base == 0 {
		r.Base = 10000
	}
	if r.Size == 0 {
		r.Size = x.Shape()[3]
	}
	if s := cfg.Scaling; s != nil {
		r.Factor, r.Low, r.High, r.Original = s.Factor, s.Low, s.High, s.Original
		if r.Low == 0 {
			r.Low = 1
		}
		if r.High == 0 {
			r.High = 4
		}
		if !(r.Factor > 0) {
			panic(fmt.Sprintf("nn: %s: the factor of the rotary scaling is %g, want above 0", layer, r.Factor))
		}
	}
	if first != nil {
		if r.First != 0 {
			panic(fmt.Sprintf("nn: %s: the rotary First is %d and there is a node for first positions, want one of them", layer, r.First))
		}
		return apply(layer, &op.Rotary{Rotation: r, Turned: heads, Firsts: true}, x, first)
	}
	return apply(layer, &op.Rotary{Rotation: r, Turned: heads}, x)
}
