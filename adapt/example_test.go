package adapt_test

import (
	"fmt"

	"github.com/paragon-train/paragon/adapt"
)

// A batch four times as large is worth up to four steps, the noisier the gradient.
func ExampleNoise_Gain() {
	for _, n := range []adapt.Noise{{Sqr: 1, Var: 0}, {Sqr: 1, Var: 1}, {Sqr: 0, Var: 1}} {
		fmt.Printf("%v: gain %.1f, efficiency %.2f\n", n, n.Gain(4), n.Efficiency(4))
	}
	// Output:
	// {1 0}: gain 1.0, efficiency 0.25
	// {1 1}: gain 1.6, efficiency 0.40
	// {0 1}: gain 4.0, efficiency 1.00
}

// Two workers with gradients (3, 1) and (1, 1): the mean of their squared norms is 6, the squared
// norm of their mean 5.
func ExampleEstimator() {
	e := adapt.NewEstimator(0)
	e.Add(adapt.Measurement{Count: 2, MeanSqr: 6, SqrMean: 5, Scale: 2})
	n := e.Noise()
	fmt.Printf("‖G‖² %.0f, variance at M0 %.0f, noise scale %.0f examples\n", n.Sqr, n.Var, n.Scale(32))
	// Output: ‖G‖² 4, variance at M0 2, noise scale 16 examples
}

// With one worker and no accumulation two steps are compared: gradients (3, 1) and then (1, 1).
func ExampleDifference() {
	e := adapt.NewEstimator(0)
	e.Add(adapt.Difference(2, 10, 5, 1))
	fmt.Println(e.Biased(), e.Noise().Sqr)
	e.Add(adapt.Measurement{Count: 2, MeanSqr: 6, SqrMean: 4, Scale: 2}) // a real one: the difference is forgotten
	fmt.Println(e.Biased(), e.Noise().Sqr)
	// Output:
	// true 4
	// false 2
}

func ExampleFactor() {
	n := adapt.Noise{Sqr: 1, Var: 2}
	p := adapt.Progress{Steps: 5, Examples: 1000, InitialBatch: 100, WarmupEpochs: 10}
	for _, rule := range adapt.Rules() {
		f, err := adapt.Factor(rule, n, 4, p)
		fmt.Printf("%s %.3f %v\n", rule, f, err)
	}
	_, err := adapt.Factor("cosine", n, 4, p)
	fmt.Println(err)
	// Output:
	// adascale 2.000 <nil>
	// adamscale 1.414 <nil>
	// linear 4.000 <nil>
	// sqrt 2.000 <nil>
	// legw 0.025 <nil>
	// adapt: learning-rate rule "cosine" is unknown, want one of adascale, adamscale, linear, sqrt, legw
}

// An epoch of 1000 examples is ten steps at the initial batch of 100, or fewer steps that are worth
// more.
func ExampleProgress() {
	p := adapt.Progress{Examples: 1000, InitialBatch: 100}
	steps := 0
	for !p.Done(0) {
		p.Add(2.5)
		steps++
	}
	fmt.Println(steps, "steps, epoch", p.Epoch())
	// Output: 4 steps, epoch 1
}

// From timings of one and of four workers: what eight would do best.
func ExampleGoodput_Best() {
	var profile adapt.Profile
	for _, batch := range []int{32, 64, 128} {
		computing := 0.02 + 0.001*float64(batch)
		one := adapt.Timing{Nodes: 1, Replicas: 1, LocalBatch: batch}
		profile.Closed(one, computing+0.1, 0.1)
		four := adapt.Timing{Nodes: 4, Replicas: 4, LocalBatch: batch}
		profile.Closed(four, computing+0.4, 0.4) // the servers' links are the slowest
	}
	model, err := adapt.FitParameterServer(profile.Timings(), adapt.Cluster{Bytes: 44 << 20, Servers: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	g := adapt.Goodput{Model: model, Noise: adapt.Noise{Sqr: 1, Var: 50}, InitialBatch: 64}
	limits := adapt.Limits{MaxBatch: 8192, MaxLocal: 256}
	c, err := g.Best(8, 8, limits)
	fmt.Println("local batch", c.LocalBatch, "accumulated", c.Accumulation, err)
	limits.Accumulation = true
	c, err = g.Best(8, 8, limits)
	fmt.Println("local batch", c.LocalBatch, "accumulated", c.Accumulation, err)
	limits.MaxServers = 8
	c, err = g.Best(8, 8, limits)
	fmt.Println("servers", c.Servers, err)
	// Output:
	// local batch 256 accumulated 0 <nil>
	// local batch 256 accumulated 1 <nil>
	// servers 8 <nil>
}
