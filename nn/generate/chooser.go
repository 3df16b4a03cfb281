package generate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Sampling says how the next token is chosen. The zero value takes the most probable one.
type Sampling struct {
	// Temperature divides logits: below 1 what is probable becomes more so. 0 takes the most
	// probable token, the first of several.
	Temperature float64
	// TopK leaves the K most probable tokens; 0: all.
	TopK int
	// TopP leaves the fewest tokens whose probabilities, at this temperature and after TopK, add
	// up to at least P, the most probable ones (Holtzman and others, 2020); 0: all.
	TopP float64
	// Seed of what is drawn.
	Seed uint64
}

// Validate names the first field that cannot be.
func (s Sampling) Validate() error {
	switch {
	case !(s.Temperature >= 0) || math.IsInf(s.Temperature, 0):
		return fmt.Errorf("generate: Temperature is %v, want a finite number of at least 0", s.Temperature)
	case s.TopK < 0:
		return fmt.Errorf("generate: TopK is %d, want at least 1, or 0 for all tokens", s.TopK)
	case !(s.TopP >= 0 && s.TopP <= 1):
		return fmt.Errorf("generate: TopP is %v, want above 0 and at most 1, or 0 for all tokens", s.TopP)
	}
	return nil
}

// A Chooser chooses tokens, one after the other.
type Chooser struct {
	cfg  Sampling
	rand *rand.Rand
	left []candidate
}

// A candidate is a token that may be chosen.
type candidate struct {
	token int32
	// p is its probability, but for a common factor.
	p float64
}

// NewChooser makes a Chooser.
func NewChooser(cfg Sampling) (*Chooser, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Chooser{cfg: cfg, rand: rand.New(rand.NewPCG(cfg.Seed, 0x70617261676f6e))}, nil
}

// Next chooses a token by the logits of all. It is an error if there are none, or if one is no
// number, as of a model that has come apart.
func (c *Chooser) Next(logits []float32) (int32, error) {
	best := -1
	for i, v := range logits {
		if v != v {
			return 0, fmt.Errorf("generate: the logit of token %d is not a number", i)
		}
		if best < 0 || v > logits[best] {
			best = i
		}
	}
	switch {
	case best < 0:
		return 0, fmt.Errorf("generate: got no logits")
	case math.IsInf(float64(logits[best]), 0):
		return 0, fmt.Errorf("generate: the largest logit is %v, want a finite number", logits[best])
	case c.cfg.Temperature == 0:
		return int32(best), nil
	}
	c.left = c.left[:0]
	for i, v := range logits {
		c.left = append(c.left, candidate{int32(i), math.Exp((float64(v) - float64(logits[best])) / c.cfg.Temperature)})
	}
	c.narrow()
	sum := 0.0
	for _, one := range c.left {
		sum += one.p
	}
	at := c.rand.Float64() * sum
	for _, one := range c.left {
		if at -= one.p; at < 0 {
			return one.token, nil
		}
	}
	return c.left[len(c.left)-1].token, nil
}

// narrow leaves the tokens of TopK and TopP, the most probable first where there is one of them.
func (c *Chooser) narrow() {
	if c.cfg.TopK == 0 && (c.cfg.TopP == 0 || c.cfg.TopP == 1) {
		return
	}
	slices.SortFunc(c.left, func(a, b candidate) int { return cmp.Or(cmp.Compare(b.p, a.p), cmp.Compare(a.token, b.token)) })
	if k := c.cfg.TopK; k > 0 && k < len(c.left) {
		c.left = c.left[:k]
	}
	if c.cfg.TopP == 0 {
		return
	}
	sum := 0.0
	for _, one := range c.left {
		sum += one.p
	}
	reached := 0.0
	for i, one := range c.left {
		if reached += one.p; reached >= c.cfg.TopP*sum {
			c.left = c.left[:i+1]
			return
		}
	}
}
