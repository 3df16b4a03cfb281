package suggesttest_test

import (
	"fmt"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/suggest/suggesttest"
)

// A problem is a function whose least value is known: the regret of a search is by how much its
// best value is above that.
func ExampleProblem() {
	p := suggesttest.Branin()
	best, err := tune.NewParams("x", 3.141592653589793, "y", 2.275)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: regret %.4f\n", p.Name, p.Value(best)-p.Min)
	// Output:
	// Branin: regret 0.0000
}
