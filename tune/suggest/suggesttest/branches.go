package suggesttest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/paragon-train/paragon/tune"
)

// DrawnBranches is a function over a drawn space of two to six branches with one to four parameters
// each. Every branch has a shape, a width and a floor of its own; one branch, drawn too, has floor
// 0, and the others have 0.02 to 0.4. The same seed gives the same function.
func DrawnBranches(seed uint64) Problem {
	rng := rand.New(rand.NewPCG(seed, 0xb4a7c4))
	n := 2 + rng.IntN(5)
	best := rng.IntN(n)
	branches := make([]drawnBranch, n)
	names := make([]any, n)
	for i := range branches {
		names[i] = fmt.Sprintf("b%d", i)
		branches[i] = drawnBranch{shape: rng.IntN(3), height: 0.3 + 1.7*rng.Float64()}
		if i != best {
			branches[i].floor = 0.02 + 0.38*rng.Float64()
		}
	}
	space := tune.Space{tune.Choice("branch", names...)}
	for i := range branches {
		for k := range 1 + rng.IntN(4) {
			name := fmt.Sprintf("b%dx%d", i, k)
			at := 0.1 + 0.8*rng.Float64()
			kinds := 3
			if k == 0 {
				// Each branch has a real parameter: random search could try all of
				// a few whole numbers.
				kinds = 2
			}
			var p tune.Param
			switch rng.IntN(kinds) {
			case 0:
				p = tune.Real(name, 0, 1)
			case 1:
				p = tune.Real(name, 1e-4, 1).Log()
			default:
				p = tune.Int(name, 0, 20)
				at = math.Round(20*at) / 20
			}
			p = p.When("branch", names[i])
			space = append(space, p)
			branches[i].params, branches[i].at = append(branches[i].params, p), append(branches[i].at, at)
		}
	}
	return Problem{Name: fmt.Sprintf("branches %d", seed), Kind: Branching, Space: space, Value: func(p tune.Params) float64 {
		for i := range branches {
			if p.Text("branch") == names[i] {
				return branches[i].value(p)
			}
		}
		panic("suggesttest: no branch")
	}}
}

// A drawnBranch is a function of the branch's parameters in [0, 1], with its least value, floor, at
// a point at.
type drawnBranch struct {
	params []tune.Param
	at     []float64
	// shape is a bowl, a cone, or a hole in a plain.
	shape         int
	floor, height float64
}

// value is the function where the branch is taken.
func (b *drawnBranch) value(p tune.Params) float64 {
	sum := 0.0
	for i, q := range b.params {
		var u float64
		switch v, _ := p.Get(q.Name); x := v.(type) {
		case int64:
			u = float64(x) / 20
		case float64:
			if u = x; q.Spec.Log {
				u = 1 + math.Log10(x)/4
			}
		}
		sum += square(u - b.at[i])
	}
	switch b.shape {
	case 0:
		return b.floor + b.height*sum
	case 1:
		return b.floor + b.height*math.Sqrt(sum)
	}
	return b.floor + b.height*(1-math.Exp(-6*sum))
}
