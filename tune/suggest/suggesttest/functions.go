package suggesttest

import (
	"fmt"
	"math"
	"slices"

	"github.com/paragon-train/paragon/tune"
)

// Kinds are the kinds in the order of tables.
func Kinds() []string {
	return []string{Smooth, Rugged, Branching, Logarithmic, Categorical, Noisy}
}

// Tuning are functions of every kind to choose a suggester's constants by.
func Tuning() []Problem {
	noisy := func(p Problem, noise float64) Problem {
		p.Name, p.Kind, p.Noise = p.Name+" with noise", Noisy, noise
		return p
	}
	return []Problem{Branin(), Hartmann6(), zakharov(), rastrigin(), schwefel(), shekel(), Mixed(), threeBranches(),
		logValley(), logBowl(), architecture(), choicesAndReals(),
		noisy(Hartmann6(), 0.3), noisyBowl(), noisy(Mixed(), 0.03), noisy(rastrigin(), 5), noisy(logValley(), 0.3), noisy(zakharov(), 20)}
}

// Judging are functions of every kind to judge a suggester by. None of its constants is chosen by
// them.
func Judging() []Problem {
	return []Problem{rosenbrock(), styblinskiTang(), ackley(), levy(), michalewicz(), fourBranches(), pipeline(),
		logScales(), supportVectors(), choiceTable(), network(), noisyAckley(), noisyEllipsoid()}
}

// reals is a space of n reals x1 to xn with the same bounds.
func reals(n int, low, high float64) tune.Space {
	var space tune.Space
	for i := range n {
		space = append(space, tune.Real(fmt.Sprintf("x%d", i+1), low, high))
	}
	return space
}

// overReals is a function of the reals of a space, whose smallest value is least.
func overReals(name, kind string, space tune.Space, least float64, f func(x []float64) float64) Problem {
	return Problem{Name: name, Kind: kind, Space: space, Min: least, Value: func(p tune.Params) float64 {
		x := make([]float64, len(space))
		for i := range x {
			x[i] = p.Float(space[i].Name)
		}
		return f(x)
	}}
}

// square is x².
func square(x float64) float64 { return x * x }

// log10 is the decimal logarithm of a parameter.
func log10(p tune.Params, name string) float64 { return math.Log10(p.Float(name)) }

// zakharov is a plate-shaped valley without other minima, here not around the middle of the cube.
// It and the functions below that have a name are those of the Virtual Library of Simulation
// Experiments (Surjanovic and Bingham), some shifted so that a suggester that likes the middle has
// no gain from it.
func zakharov() Problem {
	return overReals("Zakharov4", Smooth, reals(4, -5, 10), 0, func(x []float64) float64 {
		a, b := 0.0, 0.0
		for i, v := range x {
			v -= float64(i) * 0.5
			a += v * v
			b += 0.5 * float64(i+1) * v
		}
		return a + b*b + b*b*b*b
	})
}

// rosenbrock is a narrow curved valley: it is found at once, and hard to follow.
func rosenbrock() Problem {
	return overReals("Rosenbrock4", Smooth, reals(4, -2, 2), 0, func(x []float64) float64 {
		sum := 0.0
		for i := range len(x) - 1 {
			sum += 100*square(x[i+1]-x[i]*x[i]) + square(1-x[i])
		}
		return sum
	})
}

// styblinskiTang has two minima in each dim, of which one is deeper.
func styblinskiTang() Problem {
	return overReals("Styblinski-Tang5", Smooth, reals(5, -5, 5), -39.16616570377142*5, func(x []float64) float64 {
		sum := 0.0
		for _, v := range x {
			sum += (v*v*v*v - 16*v*v + 5*v) / 2
		}
		return sum
	})
}

// rastrigin is a bowl with a grid of local minima.
func rastrigin() Problem {
	shift := []float64{1.3, -2.2, 0.4, 3.1}
	return overReals("Rastrigin4", Rugged, reals(4, -5.12, 5.12), 0, func(x []float64) float64 {
		sum := 10 * float64(len(x))
		for i, v := range x {
			v -= shift[i]
			sum += v*v - 10*math.Cos(2*math.Pi*v)
		}
		return sum
	})
}

// schwefel has its least value near a corner, far from the next best.
func schwefel() Problem {
	return overReals("Schwefel3", Rugged, reals(3, -500, 500), 0, func(x []float64) float64 {
		sum := 418.98288727243369 * float64(len(x))
		for _, v := range x {
			sum -= v * math.Sin(math.Sqrt(math.Abs(v)))
		}
		return sum
	})
}

// shekel has ten holes of four dims in a plain (Shekel 1971).
func shekel() Problem {
	depth := []float64{0.1, 0.2, 0.2, 0.4, 0.4, 0.6, 0.3, 0.7, 0.5, 0.5}
	at := [][]float64{{4, 4, 4, 4}, {1, 1, 1, 1}, {8, 8, 8, 8}, {6, 6, 6, 6}, {3, 7, 3, 7}, {2, 9, 2, 9}, {5, 5, 3, 3}, {8, 1, 8, 1}, {6, 2, 6, 2}, {7, 3.6, 7, 3.6}}
	return overReals("Shekel4", Rugged, reals(4, 0, 10), -10.536409816692046, func(x []float64) float64 {
		sum := 0.0
		for i, c := range at {
			d := depth[i]
			for j := range x {
				d += square(x[j] - c[j])
			}
			sum -= 1 / d
		}
		return sum
	})
}

// ackleyAt is Ackley's function with its least value at shift: a hole in a plain of waves.
func ackleyAt(x, shift []float64) float64 {
	a, b, n := 0.0, 0.0, float64(len(x))
	for i, v := range x {
		v -= shift[i]
		a += v * v / n
		b += math.Cos(2*math.Pi*v) / n
	}
	return 20 + math.E - 20*math.Exp(-0.2*math.Sqrt(a)) - math.Exp(b)
}

// ackley is that function in five dims.
func ackley() Problem {
	shift := []float64{2.1, -3.3, 0.7, 4.2, -1.9}
	return overReals("Ackley5", Rugged, reals(5, -10, 10), 0, func(x []float64) float64 { return ackleyAt(x, shift) })
}

// levy is a wave along each dim of a bowl.
func levy() Problem {
	return overReals("Levy6", Rugged, reals(6, -10, 10), 0, func(x []float64) float64 {
		w := make([]float64, len(x))
		for i, v := range x {
			w[i] = 1 + (v-1)/4
		}
		last := w[len(w)-1]
		sum := square(math.Sin(math.Pi*w[0])) + square(last-1)*(1+square(math.Sin(2*math.Pi*last)))
		for _, v := range w[:len(w)-1] {
			sum += square(v-1) * (1 + 10*square(math.Sin(math.Pi*v+1)))
		}
		return sum
	})
}

// michalewicz has steep valleys between plains: most of the space tells nothing.
func michalewicz() Problem {
	return overReals("Michalewicz5", Rugged, reals(5, 0, math.Pi), -4.687658179088148, func(x []float64) float64 {
		sum := 0.0
		for i, v := range x {
			sum -= math.Sin(v) * math.Pow(math.Sin(float64(i+1)*v*v/math.Pi), 20)
		}
		return sum
	})
}

// threeBranches has a wide branch that looks good at once, a narrow one that is the best, and a
// poor one.
func threeBranches() Problem {
	return Problem{Name: "three branches", Kind: Branching, Space: tune.Space{
		tune.Choice("branch", "wide", "narrow", "poor"),
		tune.Real("a", -1, 1).When("branch", "wide"), tune.Real("b", -1, 1).When("branch", "wide"),
		tune.Real("c", -1, 1).When("branch", "narrow"), tune.Real("d", -1, 1).When("branch", "narrow"),
		tune.Real("e", -1, 1).When("branch", "narrow"), tune.Real("f", -1, 1).When("branch", "poor"),
		tune.Real("common", 0, 1),
	}, Value: func(p tune.Params) float64 {
		v := 0.5 * square(p.Float("common")-0.35)
		switch p.Text("branch") {
		case "wide":
			return v + 0.3 + 0.3*square(p.Float("a")-0.2) + 0.3*square(p.Float("b")+0.4)
		case "narrow":
			return v + math.Sqrt(square(p.Float("c")+0.5)+square(p.Float("d")-0.6)+square(p.Float("e")-0.1))
		}
		return v + 0.8 + 0.1*p.Float("f")
	}}
}

// fourBranches has its least value in the branch that is worst in most places.
func fourBranches() Problem {
	return Problem{Name: "four branches", Kind: Branching, Space: tune.Space{
		tune.Choice("branch", "a", "b", "c", "d"),
		tune.Real("a1", 0, 1).When("branch", "a"), tune.Real("a2", 0, 1).When("branch", "a"),
		tune.Real("b1", 0, 1).When("branch", "b"), tune.Real("b2", 0, 1).When("branch", "b"), tune.Real("b3", 0, 1).When("branch", "b"),
		tune.Real("c1", 0, 1).When("branch", "c"), tune.Real("c2", 0, 1).When("branch", "c"),
		tune.Real("d1", 0, 1).When("branch", "d"), tune.Int("d2", 1, 12).When("branch", "d"),
	}, Value: func(p tune.Params) float64 {
		switch p.Text("branch") {
		case "a":
			return 0.3 + square(p.Float("a1")-0.3) + square(p.Float("a2")-0.8)
		case "b":
			r := square(p.Float("b1")-0.7) + square(p.Float("b2")-0.25) + square(p.Float("b3")-0.55)
			return 1.2 * (1 - math.Exp(-6*r))
		case "c":
			return 0.2 + 0.5*math.Abs(p.Float("c1")-0.6) + 0.5*math.Abs(p.Float("c2")-p.Float("c1"))
		}
		return 0.1 + 2*square(p.Float("d1")-0.45) + 0.02*square(float64(p.Int("d2"))-9)
	}}
}

// pipeline chooses one of three models, one of which has a choice with a parameter of its own.
func pipeline() Problem {
	return Problem{Name: "pipeline", Kind: Branching, Space: tune.Space{
		tune.Choice("scaler", "none", "standard", "robust"),
		tune.Choice("model", "vectors", "forest", "network"),
		tune.Real("c", 1e-3, 1e3).Log().When("model", "vectors"),
		tune.Choice("kernel", "linear", "radial").When("model", "vectors"),
		tune.Real("gamma", 1e-4, 10).Log().When("kernel", "radial"),
		tune.Int("depth", 1, 20).When("model", "forest"),
		tune.Real("features", 0.1, 1).When("model", "forest"),
		tune.Int("layers", 1, 4).When("model", "network"),
		tune.Real("learning rate", 1e-5, 1e-1).Log().When("model", "network"),
		tune.Real("dropout", 0, 0.8).When("model", "network"),
	}, Value: func(p tune.Params) float64 {
		scale := map[string]float64{"none": 0.06, "standard": 0, "robust": 0.01}[p.Text("scaler")]
		switch p.Text("model") {
		case "vectors":
			v := scale + 0.02*square(log10(p, "c")-1)
			if p.Text("kernel") == "linear" {
				return v + 0.12
			}
			return v + 0.04 + 0.05*square(log10(p, "gamma")+1.5+0.5*(log10(p, "c")-1))
		case "forest":
			return 0.2*scale + 0.08 + 0.001*square(float64(p.Int("depth"))-12) + 0.1*square(p.Float("features")-0.4)
		}
		return 2*scale + 0.02*square(float64(p.Int("layers"))-3) + 0.08*square(log10(p, "learning rate")+2.8) + 0.3*square(p.Float("dropout")-0.25)
	}}
}

// logValley has its valley across two of three logarithmic parameters, as a learning rate that
// depends on the batch.
func logValley() Problem {
	return Problem{Name: "log valley", Kind: Logarithmic, Space: tune.Space{
		tune.Real("learning rate", 1e-6, 1).Log(), tune.Real("decay", 1e-8, 1e-1).Log(), tune.Int("batch", 8, 1024).Log(),
	}, Value: func(p tune.Params) float64 {
		lr, wd, b := log10(p, "learning rate"), log10(p, "decay"), math.Log2(float64(p.Int("batch")))
		return 0.5*square(lr-(-2.5+0.15*(b-6))) + 0.1*square(lr+wd+7) + 0.02*square(b-6)
	}}
}

// logBowl has its least value at another order of magnitude in each dim.
func logBowl() Problem {
	at := []float64{-1.5, -4, -2.7, 0.5, 1.2}
	var space tune.Space
	for i := range at {
		space = append(space, tune.Real(fmt.Sprintf("x%d", i+1), 1e-6, 1e3).Log())
	}
	return Problem{Name: "log bowl", Kind: Logarithmic, Space: space, Value: func(p tune.Params) float64 {
		sum := 0.0
		for i, c := range at {
			sum += math.Log1p(square(log10(p, space[i].Name)-c) * float64(i+1))
		}
		return sum
	}}
}

// logScales is a training's loss over five parameters of many orders of magnitude; it diverges
// where the rate is high.
func logScales() Problem {
	return Problem{Name: "log scales", Kind: Logarithmic, Space: tune.Space{
		tune.Real("learning rate", 1e-6, 1).Log(), tune.Real("decay", 1e-9, 1e-1).Log(), tune.Real("epsilon", 1e-10, 1e-2).Log(),
		tune.Real("momentum gap", 1e-4, 1).Log(), tune.Int("width", 8, 2048).Log(),
	}, Value: func(p tune.Params) float64 {
		lr, wd, eps := log10(p, "learning rate"), log10(p, "decay"), log10(p, "epsilon")
		gap, width := log10(p, "momentum gap"), math.Log2(float64(p.Int("width")))
		// effective is the rate that the momentum makes of it.
		effective := lr - 0.5*gap
		v := 0.3*square(effective+2.2) + 0.05*square(wd+5+0.3*(width-8)) + 0.02*square(max(eps+6, 0)) + 0.05*square(gap+1.2) + 0.03*square(width-8)
		if effective > -0.8 {
			v += 3
		}
		return v
	}}
}

// supportVectors is an error over a cost and a kernel's width: good along a ridge, best at one end.
func supportVectors() Problem {
	return Problem{Name: "support vectors", Kind: Logarithmic, Space: tune.Space{
		tune.Real("c", 1e-5, 1e5).Log(), tune.Real("gamma", 1e-6, 1e3).Log(), tune.Real("epsilon", 1e-4, 1).Log(),
	}, Value: func(p tune.Params) float64 {
		c, g, e := log10(p, "c"), log10(p, "gamma"), log10(p, "epsilon")
		ridge := c + 1.2*g + 1
		return 1 - 1/(1+0.8*square(ridge)) + 0.02*square(c-2) + 0.03*square(e+2)
	}}
}

// architecture is a table of six choices of four, each with a cost of its own and one with its
// neighbour's.
func architecture() Problem {
	return tableOf("architecture", 6, 4, 0.6, func(i, c int) float64 { return float64((c*c+3*i)%5) / 5 },
		func(i, a, b int) float64 { return float64((2*a+3*b+i)%4) / 4 })
}

// choiceTable is a table of five choices of six, in which neighbours count more.
func choiceTable() Problem {
	return tableOf("table", 5, 6, 0.8, func(i, c int) float64 { return float64((5*c+2*i+c*c)%7) / 7 },
		func(i, a, b int) float64 { return float64((a*b+a+2*i)%6) / 6 })
}

// tableOf adds the costs of n choices of k values, and weight times those of each two neighbours.
func tableOf(name string, n, k int, weight float64, one func(i, c int) float64, two func(i, a, b int) float64) Problem {
	var space tune.Space
	for i := range n {
		var values []any
		for c := range k {
			values = append(values, fmt.Sprintf("v%d", c))
		}
		space = append(space, tune.Choice(fmt.Sprintf("c%d", i+1), values...))
	}
	cost := func(c []int) float64 {
		sum := 0.0
		for i := range c {
			sum += one(i, c[i])
			if i > 0 {
				sum += weight * two(i, c[i-1], c[i])
			}
		}
		return sum
	}
	least, c := math.Inf(1), make([]int, n)
	for more := true; more; {
		least = min(least, cost(c))
		i := 0
		for ; i < n && c[i] == k-1; i++ {
			c[i] = 0
		}
		if more = i < n; more {
			c[i]++
		}
	}
	return Problem{Name: name, Kind: Categorical, Space: space, Min: least, Value: func(p tune.Params) float64 {
		c := make([]int, n)
		for i := range c {
			c[i] = slices.Index(space[i].Values, any(p.Text(space[i].Name)))
		}
		return cost(c)
	}}
}

// choicesAndReals has choices on which the best place of a real parameter depends.
func choicesAndReals() Problem {
	return Problem{Name: "choices and reals", Kind: Categorical, Space: tune.Space{
		tune.Choice("activation", "relu", "tanh", "gelu", "elu", "swish"), tune.Choice("norm", "none", "batch", "layer"),
		tune.Choice("optimizer", "sgd", "adam", "lamb", "rmsprop"), tune.Bool("skip"),
		tune.Int("depth", 1, 6), tune.Real("x", 0, 1), tune.Real("y", 0, 1),
	}, Value: func(p tune.Params) float64 {
		v := map[string]float64{"relu": 0.1, "tanh": 0.35, "gelu": 0, "elu": 0.2, "swish": 0.05}[p.Text("activation")]
		v += map[string]float64{"none": 0.25, "batch": 0, "layer": 0.08}[p.Text("norm")]
		at := map[string]float64{"sgd": 0.8, "adam": 0.3, "lamb": 0.5, "rmsprop": 0.25}[p.Text("optimizer")]
		v += 0.1*at + square(p.Float("x")-at) + 0.5*square(p.Float("y")-0.6)
		best := 2.0
		if p.Bool("skip") {
			best = 5
		} else {
			v += 0.15
		}
		return v + 0.03*square(float64(p.Int("depth"))-best)
	}, Min: 0.025}
}

// network has choices that move the best place of the numbers.
func network() Problem {
	return Problem{Name: "network", Kind: Categorical, Space: tune.Space{
		tune.Choice("cell", "a", "b", "c", "d", "e", "f"), tune.Choice("pool", "max", "mean", "none"), tune.Choice("schedule", "step", "cosine", "linear", "flat"),
		tune.Bool("augment"), tune.Int("layers", 2, 12), tune.Int("filters", 8, 128).Step(8), tune.Real("dropout", 0, 0.6),
	}, Value: func(p tune.Params) float64 {
		i := float64(slices.Index([]string{"d", "b", "f", "a", "e", "c"}, p.Text("cell")))
		v := 0.07 * i
		v += map[string]float64{"max": 0.05, "mean": 0, "none": 0.2}[p.Text("pool")]
		v += map[string]float64{"step": 0.04, "cosine": 0, "linear": 0.06, "flat": 0.2}[p.Text("schedule")]
		dropout := 0.35
		if p.Bool("augment") {
			dropout = 0.1
		} else {
			v += 0.08
		}
		return v + 0.01*square(float64(p.Int("layers"))-7-i/2) + 0.3*square((float64(p.Int("filters"))-72)/64) + 1.5*square(p.Float("dropout")-dropout)
	}}
}

// noisyBowl is a bowl with noise.
func noisyBowl() Problem {
	at := []float64{0.2, 0.7, 0.5, 0.4}
	p := overReals("bowl with noise", Noisy, reals(4, 0, 1), 0, func(x []float64) float64 {
		sum := 0.0
		for i, v := range x {
			sum += square(v-at[i]) * float64(i+1)
		}
		return sum
	})
	p.Noise = 0.1
	return p
}

// noisyAckley is Ackley's function in three dims, with noise.
func noisyAckley() Problem {
	shift := []float64{1.2, -2.3, 3.1}
	p := overReals("Ackley3 with noise", Noisy, reals(3, -8, 8), 0, func(x []float64) float64 { return ackleyAt(x, shift) })
	p.Noise = 1
	return p
}

// noisyEllipsoid is a bowl across its dims, steeper along one than along another, with noise.
func noisyEllipsoid() Problem {
	at := []float64{0.5, -0.3, 0.2, -0.6, 0.1}
	p := overReals("ellipsoid with noise", Noisy, reals(5, -1, 1), 0, func(x []float64) float64 {
		sum := 0.0
		for i, v := range x {
			d := v - at[i]
			if i > 0 {
				d += 0.5 * (x[i-1] - at[i-1])
			}
			sum += d * d * math.Pow(3, float64(i)/2)
		}
		return sum
	})
	p.Noise = 0.5
	return p
}
