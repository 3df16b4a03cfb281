package optim_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/paragon-train/paragon/optim"
)

// Of 64 Ki values the arrays stay in a core's cache; 11 Mi are about a ResNet18. The traffic counts
// value and state read and written and the gradient read.
//
//	go test -run - -bench Update ./optim/
func BenchmarkUpdate(b *testing.B) {
	for _, cfg := range []optim.Config{
		{Name: "test"}, {Name: "sgd"}, {Name: "sgd", Momentum: 0.9}, {Name: "nag", Momentum: 0.9}, {Name: "adam"},
		{Name: "adamw", WeightDecay: 0.01}, {Name: "adagrad"}, {Name: "rmsprop"}, {Name: "rmsprop", Centered: true, Momentum: 0.9},
		{Name: "ftrl"}, {Name: "lars", Momentum: 0.9}, {Name: "lamb"},
	} {
		for _, n := range []int{64 << 10, 11 << 20} {
			b.Run(fmt.Sprintf("rule=%s/momentum=%g/values=%d", cfg.Name, cfg.Momentum, n), func(b *testing.B) {
				o := newOptimizer(b, cfg)
				r := rand.New(rand.NewPCG(1, 1))
				value, grad, state := randomValues(r, n), randomValues(r, n), o.NewState(n)
				update := func() {
					if err := o.At(5, 1, one).Update(value, grad, state); err != nil {
						b.Fatal(err)
					}
				}
				update() // the first one touches the state's pages
				b.SetBytes(int64(4 * n * (3 + 2*len(state.Slots))))
				for b.Loop() {
					update()
				}
			})
		}
	}
}
