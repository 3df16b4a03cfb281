package ref

import (
	"fmt"
	"math"
)

// Differences estimates the gradient of a leaf at the given positions by central
// differences of Forward: (loss(w+h) − loss(w−h)) / 2h, error O(h²) plus the
// rounding of the loss divided by h. Use a float64 graph; 1e-5 is a good h.
func (r *Runner) Differences(name string, positions []int, h float64) ([]float64, error) {
	values := r.Param(name)
	out := make([]float64, len(positions))
	at := func(i int, v float64) (float64, error) {
		old := values[i]
		values[i] = v
		defer func() { values[i] = old }()
		if err := r.Set(name, values); err != nil {
			return 0, err
		}
		if err := r.Forward(); err != nil {
			return 0, err
		}
		return r.Loss(), nil
	}
	for k, i := range positions {
		up, err := at(i, values[i]+h)
		if err != nil {
			return nil, err
		}
		down, err := at(i, values[i]-h)
		if err != nil {
			return nil, err
		}
		out[k] = (up - down) / (2 * h)
	}
	return out, r.Set(name, values)
}

// CheckGradients compares the gradients of a Step with Differences, at up to
// perParam evenly spread positions of each parameter. An entry may differ by
// tolerance times the largest gradient entry of its parameter (at least 0.01);
// the error names the first that does not.
func (r *Runner) CheckGradients(perParam int, h, tolerance float64) error {
	step := r.mode.Step
	if err := r.Step(); err != nil {
		return err
	}
	r.mode.Step = step // the same dropout masks
	grads := make(map[string][]float64)
	for _, name := range r.Params() {
		grads[name] = r.Grad(name)
	}
	for _, name := range r.Params() {
		g := grads[name]
		scale := 0.01
		for _, v := range g {
			scale = math.Max(scale, math.Abs(v))
		}
		positions := spread(len(g), perParam)
		want, err := r.Differences(name, positions, h)
		if err != nil {
			return err
		}
		for k, i := range positions {
			if d := math.Abs(g[i] - want[k]); !(d <= tolerance*scale) {
				return fmt.Errorf("ref: gradient of %q at %d: got %g, finite difference %g, off by %.2g of %g", name, i, g[i], want[k], d, scale)
			}
		}
	}
	return nil
}

// spread picks up to k of 0..n-1, evenly.
func spread(n, k int) []int {
	k = min(n, k)
	out := make([]int, k)
	for i := range out {
		out[i] = i*n/k + n/k/2
	}
	return out
}
