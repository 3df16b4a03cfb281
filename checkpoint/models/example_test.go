package models_test

import (
	"fmt"

	"github.com/paragon-train/paragon/checkpoint/models"
)

// A square matrix has the same shape either way round: the table decides by its name.
func Example() {
	model := models.Of([]string{"transformer.wte.weight", "transformer.h.0.attn.c_attn.weight"})
	layout, err := model.Layout("hf")
	if err != nil {
		fmt.Println(err)
		return
	}
	there, _ := layout.Target("transformer.h.0.attn.c_proj.weight")
	fmt.Println(model.Name, there.Names, there.Form == models.Transposed)
	_, err = model.Layout("onnx")
	fmt.Println(err)
	// Output:
	// GPT-2 [transformer.h.0.attn.c_proj.weight] true
	// got the format "onnx", want one of those of GPT-2: nanogpt, hf
}
