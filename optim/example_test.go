package optim_test

import (
	"fmt"

	"github.com/paragon-train/paragon/optim"
)

func Example() {
	opt, err := optim.New(optim.Config{Name: "sgd", LearningRate: 0.5, Momentum: 0.5})
	if err != nil {
		fmt.Println(err)
		return
	}
	value := []float32{1, 2}
	state := opt.NewState(len(value))
	factors := opt.Factors("weight")
	for step := range uint64(2) {
		if err := opt.At(step, 1, factors).Update(value, []float32{1, -1}, state); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(value)
	}
	// Output:
	// [0.5 2.5]
	// [-0.25 3.25]
}
