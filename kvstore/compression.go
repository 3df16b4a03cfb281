package kvstore

import (
	"fmt"
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// Compression says how pushed gradients, and the values sent back, are encoded.
//
// What a type cannot encode:
//
//   - NaN or an infinite value: fp16, bf16 and topk send it, and it reaches the value. 2bit and
//     1bit have no code for it: the push fails with ErrNotFinite, which names the key, and changes
//     nothing. With WithGuard the contribution is refused, under every type.
//   - A value of 65520 or more, under fp16: its shard is sent as float32.
//   - A value of 1024 quanta or more (a quantum is the threshold for 2bit, 1 for 1bit), which would
//     need as many pushes to drain from the residual: the shard's gradient and residual are sent
//     together as float32. So is a shard whose residual has grown that large, which is checked
//     every 64 rounds. The log says so once. If it happens often the threshold is too small.
//
// 1bit, and 2bit with one Threshold for all shards, train badly with optimizers that have second
// moments, such as adam. With momentum every type that has a residual needs a smaller learning
// rate. docs/design/0010-compression.md has measurements. With Pull "fp16" a value beyond 65504
// becomes infinite.
type Compression struct {
	// Type is "none" (or empty), "fp16", "bf16", "2bit", "1bit" or "topk". The last three keep
	// what they leave out as a residual on the worker and add it to the next push (error
	// feedback).
	//
	// "topk" sends, for each shard, the values of gradient plus residual that are largest in
	// magnitude, uncompressed; of equal ones the first (Stich, Cordonnier and Jaggi,
	// "Sparsified SGD with Memory", NeurIPS 2018). A shard for which this saves no bytes, such
	// as one of three values, is sent whole.
	Type string
	// Threshold of 2bit (above 0) and 1bit. Zero means 0.5 for 2bit, and 0 for 1bit.
	Threshold float32
	// Scale of 2bit replaces Threshold: each push of a shard uses Scale times the root mean
	// square of its gradient as the threshold, so that one number fits all layers through a
	// whole run. 1 is a good value. Zero: Threshold.
	Scale float64
	// Ratio of topk is the share of a shard's values that are sent, above 0 and at most 1,
	// rounded to a whole number of values, at least one. Zero means 0.01.
	Ratio float64
	// Pull is the type in which values are sent back, whatever Type is: "none" (or empty) for
	// float32, "fp16" or "bf16". The servers keep float32.
	Pull string
}

// String names the type and its parameter, such as "2bit threshold 0.5", and how values are sent
// back if not as float32.
func (c Compression) String() string {
	c = c.withDefaults()
	text := c.Type
	switch {
	case c.Scale != 0:
		text += fmt.Sprintf(" scale %v", c.Scale)
	case c.quantised():
		text += fmt.Sprintf(" threshold %v", c.Threshold)
	case c.Type == "topk":
		text += fmt.Sprintf(" ratio %v", c.Ratio)
	}
	if c.Pull != "none" {
		text += ", back " + c.Pull
	}
	return text
}

// Validate returns an error that names the field, the value and the rule.
func (c Compression) Validate() error {
	switch c.Type {
	case "", "none", "fp16", "bf16", "topk":
		if c.Threshold != 0 {
			return fmt.Errorf("kvstore: compression %q: threshold: got %v, want none: only 2bit and 1bit have one", c.Type, c.Threshold)
		}
	case "2bit":
		if !(c.Threshold >= 0) || math.IsInf(float64(c.Threshold), 0) {
			return fmt.Errorf("kvstore: compression 2bit: threshold: got %v, want a number greater than 0 (zero means 0.5)", c.Threshold)
		}
	case "1bit":
		if t := float64(c.Threshold); math.IsNaN(t) || math.IsInf(t, 0) {
			return fmt.Errorf("kvstore: compression 1bit: threshold: got %v, want a finite number", c.Threshold)
		}
	default:
		return fmt.Errorf("kvstore: compression: unknown type %q, want none, fp16, bf16, 2bit, 1bit or topk", c.Type)
	}
	if c.Type != "2bit" && c.Scale != 0 {
		return fmt.Errorf("kvstore: compression %q: scale: got %v, want none: only 2bit has one", c.Type, c.Scale)
	}
	if !(c.Scale >= 0 && c.Scale <= maxScale) || c.Scale != 0 && (c.Scale < 1/maxScale || c.Threshold != 0) {
		return fmt.Errorf("kvstore: compression 2bit: scale: got %v and threshold %v, want a scale of %v to %v and no threshold, or no scale", c.Scale,
			c.Threshold, 1/maxScale, maxScale)
	}
	if c.Type != "topk" && c.Ratio != 0 {
		return fmt.Errorf("kvstore: compression %q: ratio: got %v, want none: only topk has one", c.Type, c.Ratio)
	}
	if !(c.Ratio >= 0 && c.Ratio <= 1) {
		return fmt.Errorf("kvstore: compression topk: ratio: got %v, want a number greater than 0 and at most 1 (zero means 0.01)", c.Ratio)
	}
	switch c.Pull {
	case "", "none", "fp16", "bf16":
		return nil
	}
	return fmt.Errorf("kvstore: compression: unknown type %q of values sent back, want none, fp16 or bf16", c.Pull)
}

// Warning says why c and an optimizer are a bad combination; empty: no reason is known.
func (c Compression) Warning(optimizer optim.Config) string {
	adaptive := []string{"adam", "adamw", "adagrad", "rmsprop", "ftrl", "lamb"}
	if !c.quantised() || c.Scale != 0 || !slices.Contains(adaptive, optimizer.Name) {
		return ""
	}
	return fmt.Sprintf("compression %v with optimizer %s is likely to diverge: where each code has one size, a second moment says how often a value is "+
		"sent, not how large it is (Tang et al., 1-bit Adam, ICML 2021); use 2bit with a Scale, topk, bf16 or fp16", c, optimizer.Name)
}

const maxScale = 1e6

// at returns c with the threshold for one push of n values, whose gradient has this Euclidean norm.
func (c Compression) at(norm float64, n int) Compression {
	if c.Scale != 0 {
		c.Threshold = float32(min(max(c.Scale*norm/math.Sqrt(float64(n)), leastThreshold), math.MaxFloat32))
	}
	return c
}

// leastThreshold is the threshold for a gradient of zeros: a threshold must be above 0.
const leastThreshold = 1e-30

// withDefaults returns c with its threshold and ratio filled in.
func (c Compression) withDefaults() Compression {
	if c.Type == "" {
		c.Type = "none"
	}
	if c.Pull == "" {
		c.Pull = "none"
	}
	if c.Type == "2bit" && c.Threshold == 0 && c.Scale == 0 {
		c.Threshold = 0.5
	}
	if c.Type == "topk" && c.Ratio == 0 {
		c.Ratio = 0.01
	}
	return c
}

// codec returns the codec of package wire.
func (c Compression) codec() uint8 {
	switch c.Type {
	case "2bit":
		return wire.Codec2Bit
	case "1bit":
		return wire.Codec1Bit
	case "topk":
		return wire.CodecTopK
	}
	return halfCodec(c.Type)
}

// answerCodec returns the codec of values sent back.
func (c Compression) answerCodec() uint8 { return halfCodec(c.Pull) }

func halfCodec(kind string) uint8 {
	switch kind {
	case "fp16":
		return wire.CodecFloat16
	case "bf16":
		return wire.CodecBFloat16
	}
	return wire.CodecFloat32
}

// feedback reports whether what a push leaves out is added to the next one.
func (c Compression) feedback() bool { return c.Type == "2bit" || c.Type == "1bit" || c.Type == "topk" }

// forResiduals returns c with only those fields that residuals depend on.
func (c Compression) forResiduals() Compression {
	c.Pull = ""
	return c
}

// largest returns how many of n values topk sends.
func (c Compression) largest(n int) int {
	return min(n, max(1, int(math.Round(c.Ratio*float64(n)))))
}

// quantised reports whether c is 2bit or 1bit.
func (c Compression) quantised() bool { return c.Type == "2bit" || c.Type == "1bit" }
