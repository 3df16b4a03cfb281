package optim

import "path"

// A Factor multiplies a number for the keys it names.
type Factor struct {
	// Keys is a key, or a pattern as path.Match takes it ("*.bias",
	// "layer[12].*"; a star does not cross a slash).
	Keys string `json:"keys"`
	// Factor is at least zero. Zero means zero: it freezes the keys, or takes
	// weight decay off them.
	Factor float64 `json:"factor"`
}

// Factors are the multipliers of one key.
type Factors struct {
	LearningRate float64
	WeightDecay  float64
}

// Factors returns the multipliers of the key: those of the entry whose Keys is
// exactly the key, else of the first whose pattern matches it, else 1.
func (c Config) Factors(key string) Factors {
	return Factors{
		LearningRate: factorOf(c.LearningRateFactors, key),
		WeightDecay:  factorOf(c.WeightDecayFactors, key),
	}
}

func factorOf(list []Factor, key string) float64 {
	for _, f := range list {
		if f.Keys == key {
			return f.Factor
		}
	}
	for _, f := range list {
		if ok, _ := path.Match(f.Keys, key); ok {
			return f.Factor
		}
	}
	return 1
}
