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

// Ten steps of warm-up, then half a cosine down to nothing.
func ExampleSchedule() {
	c := optim.Config{Name: "sgd", LearningRate: 0.4, Schedule: optim.Schedule{Kind: "cosine", Steps: 110, Warmup: 10}}
	for _, step := range []uint64{0, 4, 9, 10, 60, 110, 200} {
		fmt.Printf("step %d: %.2f\n", step, c.LearningRateAt(step))
	}
	// Output:
	// step 0: 0.04
	// step 4: 0.20
	// step 9: 0.40
	// step 10: 0.40
	// step 60: 0.20
	// step 110: 0.00
	// step 200: 0.00
}

// A config travels to the servers as names and numbers. One that cannot work is an error that says
// why.
func ExampleConfig_Validate() {
	fmt.Println(optim.Config{Name: "adam", LearningRate: 0.001, Beta1: 0.9}.Validate())
	fmt.Println(optim.Config{Name: "adam", LearningRate: 0.001, Momentum: 0.9}.Validate())
	// Output:
	// <nil>
	// optim: adam: Momentum: got 0.9, want 0: adam does not use it
}
