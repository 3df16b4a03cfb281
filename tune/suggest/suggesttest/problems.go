// Package suggesttest measures suggesters on functions whose minimum is known.
package suggesttest

import (
	"math"

	"github.com/paragon-train/paragon/tune"
)

// A Problem is a function to make small.
type Problem struct {
	Name string
	// Kind is one of Kinds.
	Kind  string
	Space tune.Space
	Value func(tune.Params) float64
	// Min is the least value.
	Min float64
	// Noise is the standard deviation of what is added to the value that a trial reports.
	Noise float64
}

// Branin has two parameters and three equal minima (Dixon and Szegő 1978).
func Branin() Problem {
	return Problem{Name: "Branin", Kind: Smooth, Space: tune.Space{tune.Real("x", -5, 10), tune.Real("y", 0, 15)}, Value: func(p tune.Params) float64 {
		x, y := p.Float("x"), p.Float("y")
		b, c, t := 5.1/(4*math.Pi*math.Pi), 5/math.Pi, 1/(8*math.Pi)
		a := y - b*x*x + c*x - 6
		return a*a + 10*(1-t)*math.Cos(x) + 10
	}, Min: 0.39788735772973816}
}

// Hartmann6 has six parameters and six minima, one of them the least (Dixon and Szegő 1978).
func Hartmann6() Problem {
	names := []string{"a", "b", "c", "d", "e", "f"}
	var space tune.Space
	for _, n := range names {
		space = append(space, tune.Real(n, 0, 1))
	}
	alpha := [4]float64{1, 1.2, 3, 3.2}
	a := [4][6]float64{{10, 3, 17, 3.5, 1.7, 8}, {0.05, 10, 17, 0.1, 8, 14}, {3, 3.5, 1.7, 10, 17, 8}, {17, 8, 0.05, 10, 0.1, 14}}
	c := [4][6]float64{{1312, 1696, 5569, 124, 8283, 5886}, {2329, 4135, 8307, 3736, 1004, 9991},
		{2348, 1451, 3522, 2883, 3047, 6650}, {4047, 8828, 8732, 5743, 1091, 381}}
	return Problem{Name: "Hartmann6", Kind: Smooth, Space: space, Value: func(p tune.Params) float64 {
		sum := 0.0
		for i := range alpha {
			e := 0.0
			for j, n := range names {
				d := p.Float(n) - c[i][j]*1e-4
				e += a[i][j] * d * d
			}
			sum -= alpha[i] * math.Exp(-e)
		}
		return sum
	}, Min: -3.32236801141551}
}

// Mixed has a logarithmic, an integer and a categorical parameter, and one that is there only in
// one branch. The other branch has a minimum of its own, 0.05 above the least.
func Mixed() Problem {
	return Problem{Name: "mixed", Kind: Branching, Space: tune.Space{
		tune.Real("learning rate", 1e-5, 1).Log(),
		tune.Choice("optimizer", "sgd", "adam"),
		tune.Real("momentum", 0, 0.99).When("optimizer", "sgd"),
		tune.Int("layers", 1, 8),
	}, Value: func(p tune.Params) float64 {
		lr, layers := math.Log10(p.Float("learning rate")), float64(p.Int("layers"))
		v := 0.01 * (layers - 5) * (layers - 5)
		if p.Text("optimizer") == "sgd" {
			m := p.Float("momentum")
			return v + 0.1*(lr+1.5)*(lr+1.5) + 0.8*(m-0.9)*(m-0.9)
		}
		return v + 0.05 + 0.15*(lr+3)*(lr+3)
	}}
}

// The kinds of functions.
const (
	// Smooth has one valley or a few.
	Smooth = "smooth"
	// Rugged has many local minima.
	Rugged = "rugged"
	// Branching has parameters that depend on another.
	Branching = "branching"
	// Logarithmic has ranges of many orders of magnitude.
	Logarithmic = "log"
	// Categorical has mostly choices and integers.
	Categorical = "categorical"
	// Noisy reports its value and noise.
	Noisy = "noisy"
)
