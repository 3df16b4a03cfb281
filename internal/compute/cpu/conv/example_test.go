package conv_test

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cpu/conv"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

// A 2×2 kernel of ones over a 3×3 image: each result is the sum of four neighbours.
func ExamplePlan() {
	p := pool.New(1)
	defer p.Close()
	plan, err := conv.New(conv.Shape{N: 1, H: 3, W: 3, C: 1, K: 1, R: 2, S: 2, StrideH: 1, StrideW: 1}, p)
	if err != nil {
		fmt.Println(err)
		return
	}
	plan.SetScratch(make([]float32, plan.ScratchLen()))
	x := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9}
	w := []float32{1, 1, 1, 1}
	y, dw := make([]float32, 4), make([]float32, 4)
	plan.Forward(y, x, w)
	plan.BackwardWeight(dw, x, []float32{1, 0, 0, 0})
	fmt.Println(y, dw)
	// Output: [12 16 24 28] [1 2 4 5]
}
