package shard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// A Guard keeps bad gradients out of the rounds. It is sent as JSON. Its zero value refuses only
// what is not finite.
//
// A contribution of which any value is NaN or infinite is refused: it counts as present, so that
// its round closes, with no value and weight 0. With Factor the norm of each contribution
// (Euclidean, over the shard, divided by the contribution's weight if that is above 0) is compared
// with the median norm of this shard's recent contributions, from all workers. The median is fixed
// when the round before closes, and norms enter the window in rank order, so that every run judges
// the same contributions in the same way. With error feedback the worker judges its gradient before
// it compresses it, by the limit that came with the value it pulled last: see wire.Push. A norm of
// 0 is neither judged nor remembered. Averaged keys are only checked for values that are not
// finite.
type Guard struct {
	// Factor times the median is the largest norm that is accepted unchanged. Zero: norms are
	// not judged. The norms of a shard with few values vary much: 10 is low, 100 keeps out only
	// what is clearly broken.
	Factor float64 `json:"factor,omitempty"`
	// Clip scales a contribution with a larger norm down to that limit; otherwise it is
	// refused.
	Clip bool `json:"clip,omitempty"`
	// Window is the number of norms that the median is taken of. Zero: 128.
	Window int `json:"window,omitempty"`
	// Warmup is the number of norms that must have come before any is judged. Zero: 16.
	Warmup int `json:"warmup,omitempty"`
}

const maxWindow = 1 << 16

// Validate returns an error that names the field, the value and the rule.
func (g Guard) Validate() error {
	switch d := g.withDefaults(); {
	case g.Factor != 0 && !(g.Factor > 1 && g.Factor <= math.MaxFloat32):
		return fmt.Errorf("guard: Factor: got %v, want more than 1, or 0 to ignore norms", g.Factor)
	case g.Factor == 0 && (g.Clip || g.Window != 0 || g.Warmup != 0):
		return fmt.Errorf("guard: Clip, Window and Warmup: got %v, %d and %d without a Factor, want none: they apply to norms", g.Clip, g.Window, g.Warmup)
	case g.Window < 0 || g.Window > maxWindow:
		return fmt.Errorf("guard: Window: got %d, want 0 (128) to %d", g.Window, maxWindow)
	case g.Warmup < 0 || d.Warmup > d.Window:
		return fmt.Errorf("guard: Warmup: got %d, want 0 (16) to Window, %d", g.Warmup, d.Window)
	}
	return nil
}

func (g Guard) withDefaults() Guard {
	if g.Window == 0 {
		g.Window = 128
	}
	if g.Warmup == 0 {
		g.Warmup = min(16, g.Window)
	}
	return g
}

// Encode returns the JSON of a valid guard.
func (g Guard) Encode() (string, error) {
	if err := g.Validate(); err != nil {
		return "", err
	}
	data, err := json.Marshal(g)
	return string(data), err
}

// DecodeGuard decodes the JSON of Encode. Unknown fields are errors.
func DecodeGuard(text string) (Guard, error) {
	var g Guard
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&g); err != nil {
		return Guard{}, fmt.Errorf("guard: %w", err)
	}
	if d.More() {
		return Guard{}, fmt.Errorf("guard: got more after the JSON object")
	}
	return g, g.Validate()
}

// A Caught is a contribution that the guard has refused or clipped.
type Caught struct {
	Node  uint64
	Rank  uint32
	Round uint64
	// Norm is divided by the contribution's weight. NaN or infinite: the contribution was not
	// finite.
	Norm float64
	// Limit is the limit at that time; infinite if there was none.
	Limit   float64
	Clipped bool
}
