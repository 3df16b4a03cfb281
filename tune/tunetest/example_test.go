package tunetest_test

import (
	"fmt"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/suggest"
	"github.com/paragon-train/paragon/tune/tunetest"
)

// A suggester is asked about a search that is made by hand: of twenty trials, those with a small
// rate were good.
func ExampleView() {
	v := &tunetest.View{Direction: tune.Min, SearchSpace: tune.Space{tune.Real("rate", 0, 1)}}
	for i := range 20 {
		p, err := tune.NewParams("rate", float64(i)/20)
		if err != nil {
			fmt.Println(err)
			return
		}
		v.Done(p, float64(i)) // the value is the loss
	}
	p, err := new(suggest.TPE).Suggest(v, v.Len(), tunetest.Rand(1))
	fmt.Println(p.Float("rate") < 0.3, err)
	// Output: true <nil>
}
