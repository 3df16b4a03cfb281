package generate_test

import (
	"fmt"

	"github.com/paragon-train/paragon/nn/generate"
)

func ExampleChooser() {
	c, err := generate.NewChooser(generate.Sampling{Temperature: 0.8, TopK: 2, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	counts := make([]int, 4)
	for range 1000 {
		token, err := c.Next([]float32{0.5, 2, -1, 2})
		if err != nil {
			fmt.Println(err)
			return
		}
		counts[token]++
	}
	fmt.Println(counts[0], counts[1]+counts[3], counts[2])
	// Output:
	// 0 1000 0
}

func ExampleText() {
	var text generate.Text
	for _, b := range []byte("é!") {
		fmt.Printf("%q\n", text.Add([]byte{b}))
	}
	// Output:
	// ""
	// "é"
	// "!"
}
