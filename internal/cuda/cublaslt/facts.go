package cublaslt

import (
	"errors"
	"fmt"
)

// A Fact is something of the library that its documentation leaves open or says of some versions alone. Otherwise says what is done
// if it is not so. A program on a machine with a GPU can find them all out.
type Fact struct {
	Name      string
	Holds     string // the statement
	Otherwise string // what is done where it does not hold

	// Check finds out. detail says what was seen, in either case; err that nothing was found out.
	Check func(h *Handle) (holds bool, detail string, err error)
}

// Facts lists them.
func Facts() []Fact {
	bias := Linear(512, 512, 10, BFloat16)
	single := bias
	single.BiasType = Float32
	relu := bias
	relu.ReLU = true
	gradient := LinearGradWeight(512, 512, 10, BFloat16, BFloat16)
	gradient.BiasGrad = true
	wide := LinearGradWeight(512, 512, 10, BFloat16, Float32)
	both := wide
	both.BiasGrad = true
	return []Fact{
		{"bias", "a bfloat16 product adds a bfloat16 bias, 10 columns wide", "a kernel adds the bias", offered(bias)},
		{"bias in float32", "a bfloat16 product adds a float32 bias", "the bias is converted to bfloat16", offered(single)},
		{"bias and relu", "a bfloat16 product adds a bias and takes ReLU", "a kernel takes ReLU", offered(relu)},
		{"weight gradient in float32", "bfloat16 operands give a float32 dW", "dW is bfloat16 and is converted", offered(wide)},
		{"bias gradient", "the product for a bfloat16 dW gives db too", "a kernel sums db", offered(gradient)},
		{"bias gradient in float32", "the product for a float32 dW gives a float32 db too", "a kernel sums db", offered(both)},
	}
}

// offered makes a check of whether there are plans.
func offered(m Matmul) func(*Handle) (bool, string, error) {
	return func(h *Handle) (bool, string, error) {
		plans, err := h.Plans(m)
		if errors.Is(err, ErrNotSupported) {
			return false, err.Error(), nil
		}
		if err != nil {
			return false, "", err
		}
		detail := fmt.Sprintf("%d algorithms, the first %s", len(plans), plans[0].Engine())
		for _, p := range plans {
			err = errors.Join(err, p.Close())
		}
		return true, detail, err
	}
}
