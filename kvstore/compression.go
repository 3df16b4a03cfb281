package kvstore

import (
	"fmt"
	"math"

	"github.com/paragon-train/paragon/wire"
)

// Validate says what is wrong with c, if anything is.
func (c Compression) Validate() error {
	switch c.Type {
	case "", "none", "fp16", "bf16":
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
		return fmt.Errorf("kvstore: compression: unknown type %q, want none, fp16, bf16, 2bit or 1bit", c.Type)
	}
	if c.PullToo && c.Type != "fp16" && c.Type != "bf16" {
		return fmt.Errorf("kvstore: compression %q: values are sent back compressed only with fp16 and bf16", c.Type)
	}
	return nil
}

// withDefaults returns c with its threshold filled in.
func (c Compression) withDefaults() Compression {
	if c.Type == "" {
		c.Type = "none"
	}
	if c.Type == "2bit" && c.Threshold == 0 {
		c.Threshold = 0.5
	}
	return c
}

// codec returns the codec of package wire.
func (c Compression) codec() uint8 {
	switch c.Type {
	case "fp16":
		return wire.CodecFloat16
	case "bf16":
		return wire.CodecBFloat16
	case "2bit":
		return wire.Codec2Bit
	case "1bit":
		return wire.Codec1Bit
	}
	return wire.CodecFloat32
}

// answerCodec returns the codec of values sent back.
func (c Compression) answerCodec() uint8 {
	if c.PullToo {
		return c.codec()
	}
	return wire.CodecFloat32
}

// feedback reports whether what a push leaves out is added to the next one.
func (c Compression) feedback() bool { return c.Type == "2bit" || c.Type == "1bit" }
